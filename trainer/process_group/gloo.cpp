#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "trainer/process_group/backends.h"

namespace rollcall::process_group {

void add_gloo(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              std::chrono::milliseconds timeout) {
  // create_default() reads GLOO_SOCKET_IFNAME and makes the devices; without it there would be none.
  const auto options = c10d::ProcessGroupGloo::Options::create_default(timeout);
  const auto backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>("gloo", store), group.getRank(), group.getSize(), options);
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                   c10::intrusive_ptr<c10d::Backend>(backend));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
}

}  // namespace rollcall::process_group

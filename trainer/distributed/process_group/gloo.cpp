#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/distributed/process_group/backends.h"
#include "trainer/distributed/process_group/in_place_gloo.h"

namespace rollcall::process_group {

void add_gloo(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
              const ProcessGroupOptions& options) {
  // create_default() reads GLOO_SOCKET_IFNAME and makes the devices; without it there would be none.
  const auto of_gloo = c10d::ProcessGroupGloo::Options::create_default(options.timeout);
  const auto backend = c10::make_intrusive<InPlaceGloo>(c10::make_intrusive<c10d::PrefixStore>("gloo", store),
                                                        group.getRank(), group.getSize(), of_gloo);
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO,
                   c10::intrusive_ptr<c10d::Backend>(backend));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
}

std::vector<std::uint32_t> broken_gloo_peers(c10d::Backend& gloo) {
  constexpr int kTag = 0x7ffffff0;  // nobody sends with it
  std::vector<std::uint32_t> broken;
  for (int peer = 0; peer < gloo.getSize(); ++peer) {
    std::vector<at::Tensor> tensors{at::empty({1}, at::kByte)};
    try {
      // To post a receive is refused once the connection is closed.
      if (peer != gloo.getRank()) {
        gloo.recv(tensors, peer, kTag);
      }
    } catch (const std::exception&) {
      broken.push_back(static_cast<std::uint32_t>(peer));
    }
  }
  return broken;
}

}  // namespace rollcall::process_group

#ifdef ROLLCALL_UCX
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/distributed/backends/c10d/backend.h"
#include "trainer/distributed/backends/ucx/connect.h"
#include "trainer/distributed/process_group/backends.h"
#include "trainer/distributed/process_group/store_exchange.h"

namespace rollcall::process_group {

void add_ucx(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store,
             const ProcessGroupOptions& options) {
  const int rank = group.getRank();
  const int size = group.getSize();
  const auto own = c10::make_intrusive<c10d::PrefixStore>("ucx", store);
  Result<std::unique_ptr<ucx::Engine>> engine =
      ucx::connect(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), exchange_over(own, rank, size),
                   options.timeout, options.names);
  TORCH_CHECK(engine.has_value(), engine.error().reason);
  group.setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::CUSTOM,
                   c10::intrusive_ptr<c10d::Backend>(
                       c10::make_intrusive<EngineBackend>("ucx", *std::move(engine), rank, size, options.timeout)));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::CUSTOM);
}

}  // namespace rollcall::process_group
#endif

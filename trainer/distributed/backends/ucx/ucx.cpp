// The program's side of UCX: gives its engine to c10d.
#include "trainer/distributed/backends/backends.h"

#ifdef ROLLCALL_UCX
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "trainer/distributed/backends/c10d/engine_backend.h"
#include "trainer/distributed/backends/ucx/engine/engine.h"

namespace rollcall::process_group {
namespace {

void add_ucx(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options) {
  const int rank = group.getRank();
  const int size = group.getSize();
  const auto own = c10::make_intrusive<c10d::PrefixStore>("ucx", store);
  Result<std::unique_ptr<ucx::Engine>> engine =
      ucx::connect(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size), bootstrap_over(own, rank, size),
                   options.timeout, options.names, options.processes);
  TORCH_CHECK(engine.has_value(), engine.error().reason);
  set_engine(group, "ucx", c10d::ProcessGroup::BackendType::CUSTOM, *std::move(engine), options.timeout);
}

}  // namespace

const Backend kUcx{.add = add_ucx};

}  // namespace rollcall::process_group
#else
const rollcall::process_group::Backend rollcall::process_group::kUcx{
    .add = nullptr,
    .missing = "is not in this build: UCX's headers were not found",
    .instead = "--backend=auto, or installing libucx-dev and building again"};
#endif

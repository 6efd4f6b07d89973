#include "trainer/process_group/factory.h"

#include "trainer/process_group/backends.h"
#include "trainer/process_group/exceptions.h"

namespace rollcall::process_group {
namespace {

#ifdef ROLLCALL_CUDA
constexpr bool kHasNccl = true;
#else
constexpr bool kHasNccl = false;
bool nccl_is_usable() { return false; }
void add_nccl(c10d::ProcessGroup& /*group*/, const c10::intrusive_ptr<c10d::Store>& /*store*/,
              std::chrono::milliseconds /*timeout*/) {}
#endif

Result<std::string> choose_backend(const std::string& asked) {
  if (asked == "auto") {
    return std::string(nccl_is_usable() ? "nccl" : "gloo");
  }
  if (asked == "gloo") {
    return asked;
  }
  if (asked != "nccl") {
    return fail("--backend", asked, "is not a known back end", "auto, gloo or nccl");
  }
  if (!kHasNccl) {
    return fail("--backend", asked, "this rollcall-train was built without CUDA",
                "--backend=auto, or building preset cuda");
  }
  if (!nccl_is_usable()) {
    return fail("--backend", asked, "no GPU is visible to this task", "--backend=gloo, or asking Slurm for GPUs",
                ExitCode::Unavailable);
  }
  return asked;
}

}  // namespace

Result<NamedProcessGroup> make_process_group(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank,
                                             std::uint32_t world_size, const ProcessGroupOptions& options) {
  Result<std::string> backend = choose_backend(options.backend);
  if (!backend) {
    return backend.error();
  }
  NamedProcessGroup named;
  named.backend = *backend;
  const Result<void> made =
      catch_exceptions(Speaker{rank, world_size}, "process group", "the ranks could not be connected with " + *backend,
                       "looking at network.interface with `rollcall env`, and for ranks that ended early", [&] {
                         named.process_group = c10::make_intrusive<c10d::ProcessGroup>(store, static_cast<int>(rank),
                                                                                       static_cast<int>(world_size));
                         // Gloo first: with NCCL too, small collectives of bytes and numbers stay on the CPU, and the
                         // default ends up on NCCL.
                         add_gloo(*named.process_group, store, options.timeout);
                         if (*backend == "nccl") {
                           add_nccl(*named.process_group, store, options.timeout);
                         }
                         named.process_group->setGroupName("rollcall");
                       });
  if (!made) {
    return made.error();
  }
  return named;
}

}  // namespace rollcall::process_group

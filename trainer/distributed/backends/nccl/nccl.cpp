#ifdef ROLLCALL_CUDA
#include <c10/cuda/CUDAFunctions.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "trainer/distributed/backends/backends.h"

namespace rollcall::process_group {

bool nccl_is_usable() { return c10::cuda::device_count() > 0; }

void add_nccl(c10d::ProcessGroup& group, const c10::intrusive_ptr<c10d::Store>& store, const BackendOptions& options) {
  const auto of_nccl = c10d::ProcessGroupNCCL::Options::create();
  of_nccl->timeout = options.timeout;
  const auto backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>("nccl", store), group.getRank(), group.getSize(), of_nccl);
  group.setBackend(c10::DeviceType::CUDA, c10d::ProcessGroup::BackendType::NCCL,
                   c10::intrusive_ptr<c10d::Backend>(backend));
  group.setDefaultBackend(c10d::ProcessGroup::BackendType::NCCL);
}

}  // namespace rollcall::process_group
#endif

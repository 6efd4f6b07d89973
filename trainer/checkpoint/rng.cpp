#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstring>
#include <mutex>

#include "trainer/checkpoint/checkpoint.h"

namespace rollcall::checkpoint {

std::vector<std::byte> cpu_rng_state() {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  const at::Tensor state = generator.get_state();
  std::vector<std::byte> bytes(state.nbytes());
  std::memcpy(bytes.data(), state.const_data_ptr(), bytes.size());
  return bytes;
}

Result<void> set_cpu_rng_state(const std::vector<std::byte>& state) {
  at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::Tensor tensor = torch::empty({static_cast<std::int64_t>(state.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), state.data(), state.size());
  try {
    const std::lock_guard lock(generator.mutex());
    generator.set_state(tensor);
  } catch (const c10::Error&) {
    return fail("--resume", "", "the state of the random number generator is not LibTorch's", "another checkpoint",
                ExitCode::BadData);
  }
  return {};
}

}  // namespace rollcall::checkpoint

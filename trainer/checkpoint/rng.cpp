#include "trainer/checkpoint/training_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include <cstring>
#include <mutex>

namespace rollcall::checkpoint {
namespace {

std::string rng_path(std::size_t rank) { return fmt::format("/rng/rank_{:04}/cpu", rank); }

}  // namespace

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
    return fail("--resume", "", "the state of the random number generator is invalid", "using another checkpoint",
                ErrorKind::BadData);
  }
  return {};
}

void add_rng(StateParts& parts, const std::vector<std::vector<std::byte>>& rng_per_rank) {
  for (std::size_t rank = 0; rank < rng_per_rank.size(); ++rank) {
    const auto& bytes = rng_per_rank[rank];
    const auto size = static_cast<std::int64_t>(bytes.size());
    parts.tensors.push_back({rng_path(rank),
                             "",
                             {size},
                             at::kByte,
                             torch::from_blob(const_cast<std::byte*>(bytes.data()), {size}, at::kByte),
                             0});
  }
}

Result<std::vector<std::vector<std::byte>>> read_rng(const OpenCheckpoint& stored, format::VerifyLevel level) {
  std::vector<std::vector<std::byte>> rng_per_rank;
  std::vector<format::ReadRequest> requests;
  while (const format::ManifestEntry* const state = stored.tensor(rng_path(rng_per_rank.size()))) {
    auto& bytes = rng_per_rank.emplace_back(state->bytes);
    requests.push_back({state, 0, bytes});
  }
  RETURN_IF_ERROR(stored.source().read(requests, level, 1));
  return rng_per_rank;
}

void add_generator(StateParts& parts, std::uint32_t rank, std::uint32_t size) {
  const std::vector<std::byte> bytes = cpu_rng_state();
  const auto length = static_cast<std::int64_t>(bytes.size());
  const at::Tensor mine = torch::empty({length}, at::kByte);
  std::memcpy(mine.mutable_data_ptr(), bytes.data(), bytes.size());
  for (std::uint32_t each = 0; each < size; ++each) {
    parts.tensors.push_back({rng_path(each), "", {length}, at::kByte, each == rank ? mine : at::Tensor(), 0});
  }
}

}  // namespace rollcall::checkpoint

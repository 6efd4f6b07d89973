#include "trainer/train/same_settings.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "trainer/config/identity.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"

namespace rollcall::train {
namespace {

/// Rank 0's text on all ranks.
Result<std::string> text_of_rank_zero(const World& world, const std::string& mine) {
  at::Tensor length = world.device.place(torch::tensor({static_cast<std::int64_t>(mine.size())}, at::kLong));
  if (Result<void> told = process_group::broadcast(world.process_group, length); !told) {
    return told.error();
  }
  std::string text(static_cast<std::size_t>(length.item<std::int64_t>()), '\0');
  if (world.rank == 0) {
    text = mine;
  }
  const auto bytes = static_cast<std::int64_t>(text.size());
  at::Tensor moved = world.device.place(torch::from_blob(text.data(), {bytes}, at::kByte).clone());
  if (Result<void> told = process_group::broadcast(world.process_group, moved); !told) {
    return told.error();
  }
  std::memcpy(text.data(), moved.cpu().const_data_ptr(), text.size());
  return text;
}

}  // namespace

Result<void> confirm_equal_settings(const World& world, const settings::Settings& mine, const std::string& json) {
  if (world.world_size == 1) {
    return {};
  }
  const Result<std::string> of_zero = text_of_rank_zero(world, json);
  if (!of_zero) {
    return of_zero.error();
  }
  const std::vector<config::Change> others = config::differences_among_ranks(*of_zero, mine);
  if (others.empty()) {
    return {};
  }
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("not given") : value; };
  return fail(
      others.front().option, shown(others.front().now),
      fmt::format("rank {} on {} has it so, and rank 0 has {}", world.rank, world.host, shown(others.front().then)),
      "the same options, ROLLCALL_* variables and profiles for all ranks", ExitCode::Mismatch);
}

}  // namespace rollcall::train

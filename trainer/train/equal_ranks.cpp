#include "trainer/train/equal_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "trainer/config/identity.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/torch.h"
#include "trainer/train/same_training.h"

namespace rollcall::train {
namespace {

using checkpoint::DataParts;
using Bytes = std::vector<std::uint8_t>;

/// Rank 0's text on all ranks.
Result<std::string> text_of_rank_zero(const World& world, const std::string& mine) {
  at::Tensor length = torch::tensor({static_cast<std::int64_t>(mine.size())}, at::kLong);
  RETURN_IF_ERROR(process_group::broadcast(world.process_group, length));
  std::string text(static_cast<std::size_t>(length.item<std::int64_t>()), '\0');
  if (world.rank == 0) {
    text = mine;
  }
  const auto bytes = static_cast<std::int64_t>(text.size());
  // A tensor of its own: where this is given up, something may arrive in it later.
  at::Tensor moved = torch::from_blob(text.data(), {bytes}, at::kByte).clone();
  RETURN_IF_ERROR(process_group::broadcast(world.process_group, moved));
  std::memcpy(text.data(), moved.const_data_ptr(), text.size());
  return text;
}

Result<std::string> host_of(const World& world, std::size_t rank) {
  ASSIGN_OR_RETURN(const std::vector<Bytes> hosts,
                   process_group::all_gather_bytes(world.process_group, Bytes(world.host.begin(), world.host.end())));
  return std::string(hosts[rank].begin(), hosts[rank].end());
}

}  // namespace

Result<void> confirm_equal_settings(const World& world, const settings::Settings& mine, const std::string& json) {
  if (world.world_size == 1) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string of_zero, text_of_rank_zero(world, json));
  const std::vector<config::Change> others = config::differences_among_ranks(of_zero, mine);
  if (others.empty()) {
    return {};
  }
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("not given") : value; };
  return fail(
      others.front().option, shown(others.front().now),
      fmt::format("rank {} on {} has it so, and rank 0 has {}", world.rank, world.host, shown(others.front().then)),
      "the same options, ROLLCALL_* variables and profiles for all ranks", ErrorKind::Mismatch);
}

Result<void> confirm_equal_data(const World& world, const data::Datasets& mine, const std::string& given) {
  const DataParts parts = data_of(mine);
  static_assert(std::is_trivially_copyable_v<DataParts>);
  Bytes bytes(sizeof parts);
  std::memcpy(bytes.data(), &parts, sizeof parts);
  ASSIGN_OR_RETURN(const std::vector<Bytes> all, process_group::all_gather_bytes(world.process_group, bytes));
  std::vector<DataParts> of_ranks(all.size());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::memcpy(&of_ranks[rank], all[rank].data(), std::min(sizeof(DataParts), all[rank].size()));
  }
  for (std::size_t rank = 1; rank < of_ranks.size(); ++rank) {
    const std::string what = difference_of(of_ranks[rank], of_ranks[0]);
    if (what.empty()) {
      continue;
    }
    const Result<std::string> host = host_of(world, rank);  // all ranks come here
    return host ? fail("--data", given, fmt::format("rank {} on {} has other data than rank 0: {}", rank, *host, what),
                       "making it the same data on all nodes", ErrorKind::Mismatch)
                : host.error();
  }
  return {};
}

Result<std::vector<std::int64_t>> of_rank_zero(const std::vector<std::int64_t>& mine, const World& world) {
  at::Tensor numbers = torch::tensor(mine, at::kLong);
  RETURN_IF_ERROR(process_group::broadcast(world.process_group, numbers));
  const std::int64_t* const first = numbers.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + mine.size());
}

}  // namespace rollcall::train

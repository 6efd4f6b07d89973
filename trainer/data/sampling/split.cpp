#include "trainer/data/sampling/split.h"

#include <array>

#include "trainer/data/sampling/permutation.h"

namespace rollcall::data {

Split split_85_10_5(std::int64_t size, std::uint64_t seed) {
  std::array<std::int64_t, 3> sizes{size * 85 / 100, size * 10 / 100, size * 5 / 100};
  const std::int64_t left_over = size - sizes[0] - sizes[1] - sizes[2];
  for (std::int64_t i = 0; i < left_over; ++i) {
    ++sizes[static_cast<std::size_t>(i) % sizes.size()];
  }
  const Permutation order(size, seed, 0, Purpose::Split);
  Split split;
  std::int64_t position = 0;
  const auto take = [&](std::int64_t count, std::vector<std::int64_t>& members) {
    for (const std::int64_t end = position + count; position < end; ++position) {
      members.push_back(order(position));
    }
  };
  take(sizes[0], split.train);
  take(sizes[1], split.valid);
  take(sizes[2], split.test);
  return split;
}

}  // namespace rollcall::data

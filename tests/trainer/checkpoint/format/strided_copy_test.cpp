#include "trainer/checkpoint/format/strided_copy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

namespace rollcall::checkpoint::format {
namespace {

/// Row-major copy by the definition of strides.
template <typename T>
std::vector<T> expected(const std::vector<T>& memory, const StridedBytes& tensor) {
  std::vector<T> out;
  std::vector<std::int64_t> at(tensor.sizes.size(), 0);
  const std::size_t count = total_bytes(tensor) / sizeof(T);
  while (out.size() < count) {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < at.size(); ++i) {
      offset += at[i] * tensor.strides[i];
    }
    out.push_back(memory[static_cast<std::size_t>(offset)]);
    for (std::size_t i = at.size(); i-- > 0 && ++at[i] == tensor.sizes[i];) {
      at[i] = 0;
    }
  }
  return out;
}

template <typename T>
void check(std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides) {
  std::vector<T> memory(5000);
  std::iota(memory.begin(), memory.end(), T{});
  const StridedBytes tensor{reinterpret_cast<const std::byte*>(memory.data()), sizeof(T), std::move(sizes),
                            std::move(strides)};
  std::vector<T> copied(total_bytes(tensor) / sizeof(T));
  copy_row_major(tensor, std::as_writable_bytes(std::span(copied)));
  EXPECT_EQ(copied, expected(memory, tensor));
}

template <typename T>
class StridedCopyOfType : public testing::Test {};
using Elements = testing::Types<std::uint8_t, std::uint16_t, float, double>;
TYPED_TEST_SUITE(StridedCopyOfType, Elements);

TYPED_TEST(StridedCopyOfType, GivesRowMajorOrderForAnyLayout) {
  check<TypeParam>({}, {});                        // a scalar
  check<TypeParam>({7}, {1});                      // contiguous
  check<TypeParam>({7}, {3});                      // a column
  check<TypeParam>({4, 5, 3, 2}, {30, 6, 2, 1});   // contiguous
  check<TypeParam>({4, 5, 3, 2}, {30, 1, 10, 5});  // channels-last
  check<TypeParam>({4, 5, 1, 1}, {5, 1, 5, 5});    // channels-last, 1 x 1
  check<TypeParam>({4, 5, 1, 1}, {1, 4, 99, 7});   // of a size of 1 the stride means nothing
  check<TypeParam>({3, 4}, {0, 1});                // expanded
  check<TypeParam>({2, 1, 3, 3}, {9, 1, 3, 1});    // one channel
  check<TypeParam>({3, 4}, {1, 3});                // transposed
  check<TypeParam>({0, 4}, {4, 1});                // nothing
}

TEST(StridedCopy, DetectsContiguousLayouts) {
  EXPECT_TRUE(is_contiguous({2, 3}, {3, 1}));
  EXPECT_TRUE(is_contiguous({2, 1, 3}, {3, 99, 1}));
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_TRUE(is_contiguous({1LL << 62, 1LL << 62, 0}, {1, 1, 1}));
  EXPECT_FALSE(is_contiguous({2, 3}, {1, 2}));
}

}  // namespace
}  // namespace rollcall::checkpoint::format

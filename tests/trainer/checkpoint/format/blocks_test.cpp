#include "trainer/checkpoint/format/block_file.h"

#include <gmock/gmock.h>

#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/crc.h"

namespace rollcall::checkpoint::format {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::byte> kMemory(3 * kBlockBytes, std::byte{7});

PlacedSlice slice(std::uint64_t offset, std::uint64_t dataset, std::uint64_t first_byte, std::size_t bytes, bool end) {
  return {offset, dataset, first_byte, std::span(kMemory).first(bytes), end};
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> extents(const std::vector<Block>& blocks) {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
  for (const Block& block : blocks) {
    found.emplace_back(block.begin, block.end);
  }
  return found;
}

TEST(CheckpointBlocks, WritePaddingBetweenDatasetsButNotBytesOfOtherRanks) {
  EXPECT_THAT(extents(cut_into_blocks({slice(4096, 0, 0, 100, true), slice(4224, 1, 0, 28, true)})),
              ElementsAre(std::pair(4096, 4252)));
  // The second data set begins at 4224, and its first 16 bytes are another rank's.
  EXPECT_THAT(extents(cut_into_blocks({slice(4096, 0, 0, 100, true), slice(4240, 1, 16, 12, true)})),
              ElementsAre(std::pair(4096, 4196), std::pair(4240, 4252)));
  // The end of the first one is another rank's.
  EXPECT_THAT(extents(cut_into_blocks({slice(4096, 0, 0, 100, false), slice(4224, 1, 0, 28, true)})),
              ElementsAre(std::pair(4096, 4196), std::pair(4224, 4252)));
}

TEST(CheckpointBlocks, LeaveWiderGapsWithHdf5StructuresUntouched) {
  EXPECT_THAT(extents(cut_into_blocks({slice(8192, 1, 0, 8, true), slice(4096, 0, 0, 64, true)})),
              ElementsAre(std::pair(4096, 4160), std::pair(8192, 8200)));
}

TEST(CheckpointBlocks, SplitLongSlicesAtBlockBoundaries) {
  const auto blocks = cut_into_blocks({slice(4096, 0, 0, 2 * kBlockBytes, true)});
  EXPECT_THAT(extents(blocks), ElementsAre(std::pair(4096, kBlockBytes), std::pair(kBlockBytes, 2 * kBlockBytes),
                                           std::pair(2 * kBlockBytes, 2 * kBlockBytes + 4096)));
  EXPECT_EQ(blocks[1].slices[0].first_byte, kBlockBytes - 4096);
  EXPECT_FALSE(blocks[1].slices[0].reaches_end);
  EXPECT_TRUE(blocks[2].slices[0].reaches_end);
  EXPECT_THAT(cut_into_blocks({}), IsEmpty());
}

ManifestEntry entry_of(std::uint64_t bytes) {
  ManifestEntry entry;
  entry.bytes = bytes;
  return entry;
}

TEST(CheckpointFragments, CombineToTheChecksumOfTheWholeTensor) {
  const auto whole = std::span(kMemory).first(2 * kPieceBytes + 100);
  for (const std::uint64_t cut : {std::uint64_t{1}, kPieceBytes - 1, kPieceBytes, kPieceBytes + 5, 2 * kPieceBytes}) {
    std::vector<Fragment> fragments;
    sum_up(fragments, 0, cut, whole.subspan(cut));
    sum_up(fragments, 0, 0, whole.first(cut));
    std::vector<ManifestEntry> entries{entry_of(whole.size())};
    EXPECT_EQ(set_checksums(entries, fragments), "");
    EXPECT_EQ(entries[0].crc32c, storage::crc32c(whole));
    EXPECT_THAT(entries[0].pieces, ElementsAre(storage::crc32c(whole.first(kPieceBytes)),
                                               storage::crc32c(whole.subspan(kPieceBytes, kPieceBytes)),
                                               storage::crc32c(whole.subspan(2 * kPieceBytes))));
  }
}

TEST(CheckpointFragments, WithGapsOrOverlapsAreRejected) {
  const auto problem_of = [](const std::vector<Fragment>& fragments) {
    std::vector<ManifestEntry> entries{entry_of(10), entry_of(0)};
    return set_checksums(entries, fragments);
  };
  EXPECT_EQ(problem_of({{0, 0, 10, 1}}), "");
  EXPECT_NE(problem_of({}), "");
  EXPECT_NE(problem_of({{0, 0, 4, 1}}), "");
  EXPECT_NE(problem_of({{0, 4, 6, 1}}), "");
  EXPECT_NE(problem_of({{0, 0, 4, 1}, {0, 5, 5, 1}}), "");
  EXPECT_NE(problem_of({{0, 0, 10, 1}, {0, 4, 2, 1}}), "");
  EXPECT_NE(problem_of({{0, 0, 10, 1}, {0, 0, 10, 1}}), "");
  EXPECT_NE(problem_of({{0, 0, 11, 1}}), "");
  EXPECT_NE(problem_of({{0, 0, 10, 1}, {1, 0, 1, 1}}), "");
  EXPECT_NE(problem_of({{0, 0, 10, 1}, {2, 0, 1, 1}}), "");
}

}  // namespace
}  // namespace rollcall::checkpoint::format

#include "trainer/distributed/fsdp/unsharded_memory.h"

#include <gtest/gtest.h>
#include <array>
#include <random>

namespace rollcall::parallel::fsdp {
namespace {

using Block = BlockLedger::Block;

class BlockLedgerTest : public testing::Test {
 protected:
  /// What a pool does: a free block, or a new one after others went. `gone` counts those.
  Block take(std::size_t bytes) {
    if (const std::optional<Block> block = ledger_.reuse(bytes)) {
      return *block;
    }
    gone_ += ledger_.make_room(bytes).size();
    const Block block{.address = &addresses_.at(made_++), .bytes = bytes};
    ledger_.add(block);
    return block;
  }

  BlockLedger ledger_;
  std::array<char, 4096> addresses_{};
  std::size_t made_ = 0;
  std::size_t gone_ = 0;
};

TEST_F(BlockLedgerTest, ReusesTheSmallestFreeBlockThatFits) {
  const std::array<Block, 3> blocks{take(10), take(30), take(20)};
  for (const Block& block : blocks) {
    ledger_.give_back(block);
  }
  EXPECT_EQ(take(11).address, blocks[2].address);
  EXPECT_EQ(take(11).address, blocks[1].address);
  EXPECT_EQ(take(10).address, blocks[0].address);
  EXPECT_EQ(made_, 3U);
  EXPECT_EQ(ledger_.held(), 60U);
}

TEST_F(BlockLedgerTest, FreesBlocksBeforeExceedingThePeakUse) {
  const Block small = take(10);
  const Block middle = take(30);
  ledger_.give_back(small);
  ledger_.give_back(middle);
  static_cast<void>(take(35));  // 40 were in use at once, 45 would be held without the larger one
  EXPECT_EQ(gone_, 2U);
  EXPECT_EQ(ledger_.held(), 35U);
  EXPECT_EQ(ledger_.most_used(), 40U);
}

TEST_F(BlockLedgerTest, ReleaseFreesAllUnusedBlocks) {
  const Block kept = take(5);
  ledger_.give_back(take(7));
  EXPECT_EQ(ledger_.release().size(), 1U);
  EXPECT_EQ(ledger_.held(), kept.bytes);
}

TEST_F(BlockLedgerTest, HoldsAtMostThePeakUseInRandomSequences) {
  std::mt19937 random(7);
  std::vector<Block> used;
  std::size_t in_use = 0;
  std::size_t most = 0;
  for (int i = 0; i < 3000; ++i) {
    if (!used.empty() && (used.size() > 8 || random() % 2 == 0)) {
      in_use -= used.back().bytes;
      ledger_.give_back(used.back());
      used.pop_back();
    } else {
      used.push_back(take(1 + random() % 1000));
      in_use += used.back().bytes;
      most = std::max(most, in_use);
    }
    ASSERT_EQ(ledger_.most_used(), most);
    ASSERT_LE(ledger_.held(), most);
    ASSERT_GE(ledger_.held(), in_use);
  }
}

TEST(UnshardedMemory, ReusesABlockWhichMayOutliveThePool) {
  at::Tensor left;
  {
    const UnshardedMemory memory;
    at::Tensor first = memory.take(10000);
    const void* const address = first.const_data_ptr();
    const std::size_t held = memory.held();
    EXPECT_GE(held, 10000U);
    first.reset();
    left = memory.take(static_cast<std::int64_t>(held));
    EXPECT_EQ(left.const_data_ptr(), address);
    EXPECT_EQ(memory.held(), held);
    EXPECT_EQ(memory.take(0).numel(), 0);
  }
  left.fill_(1);
}

}  // namespace
}  // namespace rollcall::parallel::fsdp

#include "trainer/distributed/fsdp/block_ledger.h"

#include <algorithm>
#include <iterator>

namespace rollcall::parallel::fsdp {

BlockLedger::Block BlockLedger::take(Free::iterator block) {
  const Block taken{.address = block->second, .bytes = block->first};
  free_bytes_ -= taken.bytes;
  free_.erase(block);
  return taken;
}

void BlockLedger::count_used(std::size_t bytes) {
  used_ += bytes;
  most_used_ = std::max(most_used_, used_);
}

std::optional<BlockLedger::Block> BlockLedger::reuse(std::size_t bytes) {
  const auto smallest = free_.lower_bound(bytes);
  if (smallest == free_.end()) {
    return std::nullopt;
  }
  const Block block = take(smallest);
  count_used(block.bytes);
  return block;
}

std::vector<BlockLedger::Block> BlockLedger::make_room(std::size_t bytes) {
  const std::size_t limit = std::max(most_used_, used_ + bytes);
  std::vector<Block> gone;
  while (!free_.empty() && held() + bytes > limit) {
    gone.push_back(take(std::prev(free_.end())));
  }
  return gone;
}

std::vector<BlockLedger::Block> BlockLedger::release() {
  std::vector<Block> gone;
  while (!free_.empty()) {
    gone.push_back(take(free_.begin()));
  }
  return gone;
}

void BlockLedger::add(const Block& block) { count_used(block.bytes); }

void BlockLedger::give_back(const Block& block) {
  used_ -= block.bytes;
  free_bytes_ += block.bytes;
  free_.emplace(block.bytes, block.address);
}

}  // namespace rollcall::parallel::fsdp

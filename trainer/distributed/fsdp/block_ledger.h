#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

namespace rollcall::parallel::fsdp {

/// The accounts of a pool of memory blocks: which are free, which serves a request, and which must go so that the pool
/// never holds more than was once needed at the same time. Pure: it hands addresses around and never looks at them.
/// Not thread-safe.
class BlockLedger {
 public:
  struct Block {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  /// The smallest free block of at least `bytes`, in use from now on; nothing where a new one is needed.
  [[nodiscard]] std::optional<Block> reuse(std::size_t bytes);

  /// Before a new block of `bytes`: takes free blocks out, largest first, until what is held with the new one is no
  /// more than most_used() or what is in use with the new one. The caller gives them back to the system.
  [[nodiscard]] std::vector<Block> make_room(std::size_t bytes);

  /// A new block, in use.
  void add(const Block& block);

  /// `block`, which was in use, is free.
  void give_back(const Block& block);

  /// Takes all free blocks out, for the caller to give back to the system.
  [[nodiscard]] std::vector<Block> release();

  /// Bytes of all blocks, free or in use.
  [[nodiscard]] std::size_t held() const { return used_ + free_bytes_; }
  /// Most bytes that were in use at the same time.
  [[nodiscard]] std::size_t most_used() const { return most_used_; }

 private:
  using Free = std::multimap<std::size_t, void*>;  ///< by size
  Block take(Free::iterator block);
  void count_used(std::size_t bytes);

  Free free_;
  std::size_t free_bytes_ = 0;
  std::size_t used_ = 0;
  std::size_t most_used_ = 0;
};

}  // namespace rollcall::parallel::fsdp

#pragma once

#include <ATen/core/Tensor.h>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::parallel::fsdp {

// Memory operations on dense tensors of any layout. Offsets are in bytes from a tensor's first element. In main memory
// they are memcpy and memset; on another device they are enqueued on its current stream, many pieces in few kernels.
// Autograd records none of them.

struct Piece {
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::int64_t bytes = 0;
};

/// Copies pieces of `from` into `to`, which is on the same device, may have another type and does not overlap it.
void copy_pieces(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces);

void set_zero(const at::Tensor& tensor, std::int64_t begin, std::int64_t bytes);

/// Returns a one-dimensional view of a dense tensor's elements in memory order.
[[nodiscard]] at::Tensor in_memory_order(const at::Tensor& tensor);

/// Keeps track of a pool of memory blocks: which are free, which one serves a request, and which must be freed so that
/// the pool never holds more than was once in use at the same time. Pure: it never reads or writes the addresses. Not
/// thread-safe.
class BlockLedger {
 public:
  struct Block {
    void* address = nullptr;
    std::size_t bytes = 0;
  };

  /// Marks the smallest free block of at least `bytes` as used and returns it; unset if a new block is needed.
  [[nodiscard]] std::optional<Block> reuse(std::size_t bytes);

  /// Makes room for a new block of `bytes`: removes free blocks, largest first, until the pool with the new one holds
  /// no more than most_used() or than is in use with it. The caller returns them to the system.
  [[nodiscard]] std::vector<Block> make_room(std::size_t bytes);

  /// Adds a new block, which is in use.
  void add(const Block& block);

  /// Marks `block`, which was in use, as free.
  void give_back(const Block& block);

  /// Removes all free blocks, which the caller returns to the system.
  [[nodiscard]] std::vector<Block> release();

  /// Returns the bytes of all blocks, free or in use.
  [[nodiscard]] std::size_t held() const { return used_ + free_bytes_; }
  /// Returns the most bytes that were in use at the same time.
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

/// Allocates the memory of tensors that exist only while a block of the model computes: unsharded parameters, results
/// of all-gathers, pending gradients.
///
/// In main memory it is a pool separate from malloc's heap, where freed blocks between others that stay would leave
/// holes in the process's memory, and sharding would save less. Freed blocks serve the next request that fits, so in
/// steady state there are no page faults; the pool never holds more than was once in use at the same time. The
/// allocators of other devices are such pools already, and are used directly.
///
/// Copies share the pool. Thread-safe: a collective's thread may drop the last reference to a block.
class UnshardedMemory {
 public:
  explicit UnshardedMemory(c10::Device device = c10::Device(c10::kCPU));

  [[nodiscard]] c10::Device device() const { return device_; }

  /// Returns `bytes` (0 is allowed) of uninitialised memory as a tensor of bytes on device(), page-aligned in main
  /// memory. It returns to the pool with the last reference, also after the pool's destruction. Throws std::bad_alloc,
  /// on other devices what their allocator throws.
  [[nodiscard]] at::Tensor take(std::int64_t bytes) const;

  /// Returns the bytes that a tensor of `bytes` takes among several side by side: the fastest loads of kernels need the
  /// alignment of the device's own allocator.
  [[nodiscard]] std::int64_t aligned(std::int64_t bytes) const;

  /// Returns the bytes of main memory mapped now, in use or free; 0 for another device, whose allocator counts them.
  [[nodiscard]] std::size_t held() const;

 private:
  class Pool;
  c10::Device device_;
  std::shared_ptr<Pool> pool_;  ///< null if the device's allocator is used
};

// These functions free and restore the memory of a module's own parameter, while the tensor object stays. What autograd
// saved of it (also views, as linear layers do) uses the same memory, so it is valid again once the memory is restored
// with the same values.

/// Frees the memory, or drops the parameter's reference to it. Until lend(), reading or writing the tensor throws a
/// c10::Error that names the parameter and says what to do: a copy, an optimizer or a checkpoint neither crashes nor
/// sees an empty tensor.
void release(const at::Tensor& parameter, const std::string& name);

/// Makes `parameter` use `memory`, bytes of its device, from byte `begin` on until release(), with the values that are
/// or will be there. Writing them through `memory` does not change the parameter's version counter, by which autograd
/// would notice a change.
void lend(const at::Tensor& parameter, const at::Tensor& memory, std::int64_t begin);

}  // namespace rollcall::parallel::fsdp

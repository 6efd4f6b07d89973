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

// Memory operations on dense tensors of any layout, by bytes from a tensor's first element on. In main memory they are
// memcpy and memset; on another device they are put on its current stream, many pieces in few kernels. Nothing is
// recorded by autograd.

struct Piece {
  std::int64_t to = 0;
  std::int64_t from = 0;
  std::int64_t bytes = 0;
};

/// Copies pieces of `from` into `to`, which is on the same device, may have another type and does not overlap it.
void copy_pieces(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces);

void set_zero(const at::Tensor& tensor, std::int64_t begin, std::int64_t bytes);

/// The elements of a dense tensor in the order in which they lie in memory: a view with one dimension.
[[nodiscard]] at::Tensor in_memory_order(const at::Tensor& tensor);

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

/// Memory of what exists only while a block of the model computes: unsharded parameters, results of all-gathers,
/// gradients on their way.
///
/// In main memory a pool of its own, apart from malloc's heap: there blocks that come and go between others that stay
/// leave holes which the process keeps, and what sharding saves would not show. Freed blocks serve the next request
/// that they are large enough for, so in steady state no page is fresh; the pool never holds more than was once in use
/// at the same time. Other devices' allocators are such pools already, and serve here.
///
/// Copies share the pool. Thread-safe: a collective's thread may drop the last reference to a block.
class UnshardedMemory {
 public:
  explicit UnshardedMemory(c10::Device device = c10::Device(c10::kCPU));

  [[nodiscard]] c10::Device device() const { return device_; }

  /// `bytes` (0 is allowed) with undefined values, as a tensor of bytes on device(); in main memory aligned to a page.
  /// Goes back to the pool with the last reference, also after the pool's end. Throws std::bad_alloc, on other devices
  /// what their allocator throws.
  [[nodiscard]] at::Tensor take(std::int64_t bytes) const;

  /// Bytes that a tensor of `bytes` takes where several lie side by side: kernels' fastest loads want them aligned as
  /// the device's own allocator aligns them.
  [[nodiscard]] std::int64_t aligned(std::int64_t bytes) const;

  /// Bytes of main memory mapped now, in use or waiting for use; 0 for another device, whose allocator keeps accounts.
  [[nodiscard]] std::size_t held() const;

 private:
  class Pool;
  c10::Device device_;
  std::shared_ptr<Pool> pool_;  ///< null: the device's allocator
};

// The memory of a module's own parameter, which comes and goes while the tensor object stays. What autograd saved of
// it (also views, as linear layers do) refers to the same memory, so it is right again once the memory is back with
// the same values.

/// Frees the memory, or drops the parameter's reference to it. Until lend(), whoever reads or writes the tensor gets a
/// c10::Error that names the parameter and says what to do: a copy, an optimizer or a checkpoint can neither crash nor
/// see an empty tensor.
void release(const at::Tensor& parameter, const std::string& name);

/// Lets `parameter` live in `memory`, bytes of its device, from byte `begin` on until release(), with the values that
/// are or will be there. Whoever writes them through `memory` leaves the parameter's version alone, by which autograd
/// would notice a change.
void lend(const at::Tensor& parameter, const at::Tensor& memory, std::int64_t begin);

}  // namespace rollcall::parallel::fsdp

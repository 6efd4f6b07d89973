// The stand-in device's page-locked memory of the host.
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/stand_in_memory.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

/// As CUDA's caching host allocator (ATen/core/CachingHostAllocator.h): sizes are rounded up to a power of two, what is
/// freed serves the next request of its size, and is not used for another one before the copies from and to it are
/// made. It is never given back. Memory that is page-locked is all there at once; several threads do that beside each
/// other.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    make_context_of_thread();  // it asks events of copies
    auto block = std::make_unique<std::shared_ptr<Block>>(take(bytes));
    void* const address = (*block)->address;
    return {address, block.release(), &let_go, c10::Device(c10::kCPU)};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { default_copy_data(to, from, bytes); }

  [[nodiscard]] std::shared_ptr<const void> holding(const void* address) {
    const std::lock_guard lock(mutex_);
    const auto behind = used_.upper_bound(static_cast<const std::byte*>(address));
    if (behind == used_.begin()) {
      return nullptr;
    }
    const std::shared_ptr<Block> block = std::prev(behind)->second.lock();
    return block && address < block->address + block->bytes ? block : nullptr;
  }
  [[nodiscard]] PageLocks locks() {
    const std::lock_guard lock(mutex_);
    return locks_;
  }

 private:
  struct Block {
    std::byte* address;
    std::size_t bytes;
  };

  static void let_go(void* context) { delete static_cast<std::shared_ptr<Block>*>(context); }

  std::shared_ptr<Block> take(std::size_t asked) {
    const std::size_t bytes = std::bit_ceil(asked);
    std::byte* const free = take_free(bytes);
    std::shared_ptr<Block> block(new Block{free == nullptr ? lock_pages(bytes) : free, bytes},
                                 [this](Block* done) { give_back(done); });
    const std::lock_guard lock(mutex_);
    used_[block->address] = block;
    return block;
  }
  /// Null: there is none.
  std::byte* take_free(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& freed = freed_[bytes];
    if (freed.empty()) {
      return nullptr;
    }
    std::byte* const address = freed.back();
    freed.pop_back();
    return address;
  }
  std::byte* lock_pages(std::size_t bytes) {
    TORCH_CHECK(!is_captured(), "stand-in: memory of the host is page-locked while a stream is captured");
    auto* const address = static_cast<std::byte*>(c10::alloc_cpu(bytes));
    std::memset(address, 0xff, bytes);
    const std::lock_guard lock(mutex_);
    locks_.times += 1;
    locks_.bytes += static_cast<std::int64_t>(bytes);
    locks_.bytes_by_main += gettid() == getpid() ? static_cast<std::int64_t>(bytes) : 0;
    return address;
  }
  void give_back(Block* done) {
    const std::unique_ptr<Block> block(done);
    const std::lock_guard lock(mutex_);
    used_.erase(block->address);
    freed_[block->bytes].push_back(block->address);
  }

  std::mutex mutex_;
  std::map<const std::byte*, std::weak_ptr<Block>> used_;
  std::map<std::size_t, std::vector<std::byte*>> freed_;
  PageLocks locks_;
};

PinnedMemory& all_pinned_memory() {
  static auto* const all = new PinnedMemory();  // tensors are let go of until the process ends
  return *all;
}

}  // namespace

c10::Allocator& pinned_memory() { return all_pinned_memory(); }

std::shared_ptr<const void> pinned_block(const void* address) { return all_pinned_memory().holding(address); }

PageLocks page_locks() { return all_pinned_memory().locks(); }

}  // namespace rollcall::testing_support::stand_in

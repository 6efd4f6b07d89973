// The stand-in device's page-locked memory of the host.
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/support/stand_in_memory.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

/// As CUDA's caching host allocator: sizes are rounded up to a power of two, what is freed serves the next request of
/// its size, and is not used for another one before the copies from and to it are made.
class PinnedMemory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
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
  [[nodiscard]] std::int64_t times_locked() {
    const std::lock_guard lock(mutex_);
    return times_locked_;
  }

 private:
  struct Block {
    std::byte* address;
    std::size_t bytes;
  };

  static void let_go(void* context) { delete static_cast<std::shared_ptr<Block>*>(context); }

  std::shared_ptr<Block> take(std::size_t asked) {
    const std::size_t bytes = std::bit_ceil(asked);
    const std::lock_guard lock(mutex_);
    std::vector<std::byte*>& freed = freed_[bytes];
    if (freed.empty()) {
      TORCH_CHECK(!is_captured(), "stand-in: memory of the host is page-locked while a stream is captured");
      freed.push_back(static_cast<std::byte*>(c10::alloc_cpu(bytes)));
      times_locked_ += 1;
    }
    std::shared_ptr<Block> block(new Block{freed.back(), bytes}, [this](Block* done) { give_back(done); });
    freed.pop_back();
    used_[block->address] = block;
    return block;
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
  std::int64_t times_locked_ = 0;
};

PinnedMemory& all_pinned_memory() {
  static auto* const all = new PinnedMemory();  // tensors are let go of until the process ends
  return *all;
}

}  // namespace

c10::Allocator& pinned_memory() { return all_pinned_memory(); }

std::shared_ptr<const void> pinned_block(const void* address) { return all_pinned_memory().holding(address); }

std::int64_t times_page_locked() { return all_pinned_memory().times_locked(); }

}  // namespace rollcall::testing_support::stand_in

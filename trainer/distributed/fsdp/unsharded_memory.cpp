#include "trainer/distributed/fsdp/unsharded_memory.h"

#include <sys/mman.h>
#include <torch/torch.h>
#include <unistd.h>
#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "trainer/distributed/fsdp/block_ledger.h"

namespace rollcall::parallel::fsdp {
namespace {

using Block = BlockLedger::Block;

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::max<std::size_t>(1, (bytes + page - 1) / page) * page;
}

void unmap(const std::vector<Block>& blocks) {
  for (const Block& block : blocks) {
    munmap(block.address, block.bytes);
  }
}

}  // namespace

class UnshardedMemory::Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { unmap(ledger_.release()); }

  Block take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (const std::optional<Block> block = ledger_.reuse(bytes)) {
      return *block;
    }
    unmap(ledger_.make_room(bytes));
    void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      throw std::bad_alloc();
    }
    const Block block{.address = address, .bytes = bytes};
    ledger_.add(block);
    return block;
  }

  void give_back(const Block& block) {
    const std::lock_guard lock(mutex_);
    ledger_.give_back(block);
  }

  std::size_t held() {
    const std::lock_guard lock(mutex_);
    return ledger_.held();
  }

 private:
  std::mutex mutex_;
  BlockLedger ledger_;
};

UnshardedMemory::UnshardedMemory(c10::Device device)
    : device_(device), pool_(device.is_cpu() ? std::make_shared<Pool>() : nullptr) {}

at::Tensor UnshardedMemory::take(std::int64_t bytes) const {
  if (!pool_) {
    return at::empty({bytes}, at::TensorOptions(at::kByte).device(device_));
  }
  const Block block = pool_->take(whole_pages(static_cast<std::size_t>(bytes)));
  return at::from_blob(
      block.address, {bytes}, [pool = pool_, block](void*) { pool->give_back(block); }, at::TensorOptions(at::kByte));
}

std::int64_t UnshardedMemory::aligned(std::int64_t bytes) const {
  constexpr std::int64_t kOnDevices = 512;  // of CUDA's caching allocator, the largest of LibTorch's
  const std::int64_t alignment = device_.is_cpu() ? static_cast<std::int64_t>(c10::gAlignment) : kOnDevices;
  return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t UnshardedMemory::held() const { return pool_ ? pool_->held() : 0; }

}  // namespace rollcall::parallel::fsdp

#include "trainer/distributed/fsdp/unsharded_memory.h"

#include <sys/mman.h>
#include <unistd.h>
#include <algorithm>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

#include "trainer/libtorch_version.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {
namespace {

at::Tensor bytes_of(const at::Tensor& tensor) { return in_memory_order(tensor).view(at::kByte); }

void copy_in_main_memory(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces) {
  auto* const target = static_cast<char*>(to.mutable_data_ptr());
  const auto* const source = static_cast<const char*>(from.const_data_ptr());
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) {
      std::memcpy(target + piece.to, source + piece.from, static_cast<std::size_t>(piece.bytes));
    }
  }
}

void copy_on_device(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces) {
  const at::Tensor target = bytes_of(to);
  const at::Tensor source = bytes_of(from);
  std::vector<at::Tensor> targets;
  std::vector<at::Tensor> sources;
  for (const Piece& piece : pieces) {
    if (piece.bytes > 0) {
      targets.push_back(target.narrow(0, piece.to, piece.bytes));
      sources.push_back(source.narrow(0, piece.from, piece.bytes));
    }
  }
  if (!targets.empty()) {
    at::_foreach_copy_(targets, sources, /*non_blocking=*/true);
  }
}

}  // namespace

void copy_pieces(const at::Tensor& to, const at::Tensor& from, const std::vector<Piece>& pieces) {
  const torch::NoGradGuard no_grad;
  if (to.is_cpu()) {
    copy_in_main_memory(to, from, pieces);
  } else {
    copy_on_device(to, from, pieces);
  }
}

void set_zero(const at::Tensor& tensor, std::int64_t begin, std::int64_t bytes) {
  if (bytes == 0) {
    return;
  }
  const torch::NoGradGuard no_grad;
  if (tensor.is_cpu()) {
    std::memset(static_cast<char*>(tensor.mutable_data_ptr()) + begin, 0, static_cast<std::size_t>(bytes));
  } else {
    bytes_of(tensor).narrow(0, begin, bytes).zero_();
  }
}

at::Tensor in_memory_order(const at::Tensor& tensor) { return tensor.detach().as_strided({tensor.numel()}, {1}); }

namespace {

using MemoryBlock = BlockLedger::Block;

std::size_t whole_pages(std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return std::max<std::size_t>(1, (bytes + page - 1) / page) * page;
}

void unmap(const std::vector<MemoryBlock>& blocks) {
  for (const MemoryBlock& block : blocks) {
    munmap(block.address, block.bytes);
  }
}

}  // namespace

BlockLedger::Block BlockLedger::take(Free::iterator block) {
  const MemoryBlock taken{.address = block->second, .bytes = block->first};
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
  const MemoryBlock block = take(smallest);
  count_used(block.bytes);
  return block;
}

std::vector<BlockLedger::Block> BlockLedger::make_room(std::size_t bytes) {
  const std::size_t limit = std::max(most_used_, used_ + bytes);
  std::vector<MemoryBlock> gone;
  while (!free_.empty() && held() + bytes > limit) {
    gone.push_back(take(std::prev(free_.end())));
  }
  return gone;
}

std::vector<BlockLedger::Block> BlockLedger::release() {
  std::vector<MemoryBlock> gone;
  while (!free_.empty()) {
    gone.push_back(take(free_.begin()));
  }
  return gone;
}

void BlockLedger::add(const MemoryBlock& block) { count_used(block.bytes); }

void BlockLedger::give_back(const MemoryBlock& block) {
  used_ -= block.bytes;
  free_bytes_ += block.bytes;
  free_.emplace(block.bytes, block.address);
}

class UnshardedMemory::Pool {
 public:
  Pool() = default;
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool() { unmap(ledger_.release()); }

  MemoryBlock take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    if (const std::optional<MemoryBlock> block = ledger_.reuse(bytes)) {
      return *block;
    }
    unmap(ledger_.make_room(bytes));
    void* const address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
      throw std::bad_alloc();
    }
    const MemoryBlock block{.address = address, .bytes = bytes};
    ledger_.add(block);
    return block;
  }

  void give_back(const MemoryBlock& block) {
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
  const MemoryBlock block = pool_->take(whole_pages(static_cast<std::size_t>(bytes)));
  return at::from_blob(
      block.address, {bytes}, [pool = pool_, block](void*) { pool->give_back(block); }, at::TensorOptions(at::kByte));
}

std::int64_t UnshardedMemory::aligned(std::int64_t bytes) const {
  constexpr std::int64_t kOnDevices = 512;  // of CUDA's caching allocator, the largest of LibTorch's
  const std::int64_t alignment = device_.is_cpu() ? static_cast<std::int64_t>(c10::gAlignment) : kOnDevices;
  return (bytes + alignment - 1) / alignment * alignment;
}

std::size_t UnshardedMemory::held() const { return pool_ ? pool_->held() : 0; }

void release(const at::Tensor& parameter, const std::string& name) {
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  allow_access(*storage);
  storage->set_data_ptr_noswap(at::DataPtr(nullptr, parameter.device()));
  storage->set_nbytes(0);
  forbid_access(
      *storage,
      "parameter " + name +
          " is sharded, and this rank holds only its shard of it: use the replica's named_parameters() (shards) or "
          "gather() (whole) instead of the module's");
}

void lend(const at::Tensor& parameter, const at::Tensor& memory, std::int64_t begin) {
  auto reference = std::make_unique<at::Tensor>(memory);
  char* const address = static_cast<char*>(memory.mutable_data_ptr()) + begin;
  at::DataPtr data(
      address, reference.release(), [](void* held) { delete static_cast<at::Tensor*>(held); }, parameter.device());
  c10::StorageImpl* const storage = parameter.storage().unsafeGetStorageImpl();
  allow_access(*storage);
  storage->set_data_ptr_noswap(std::move(data));
  storage->set_nbytes(static_cast<std::size_t>(parameter.numel()) * parameter.dtype().itemsize());
}

}  // namespace rollcall::parallel::fsdp

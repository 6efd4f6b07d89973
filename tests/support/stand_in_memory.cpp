#include "tests/support/stand_in_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/stand_in_device.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

/// Addresses that nobody can read, and beside them the memory that they stand for.
class Memory final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    // What a capture frees serves it alone, and stays its own: its graph writes there whenever it is replayed.
    const bool of_capture = is_captured();
    const std::lock_guard lock(mutex_);
    const Key key{device().index(), current.stream(), (bytes + kAlignment - 1) / kAlignment * kAlignment, of_capture};
    std::vector<char*>& freed = freed_[key];
    char* address = nullptr;
    if (!freed.empty()) {
      address = freed.back();
      freed.pop_back();
    } else {
      make_context(key.device);
      address = fresh(key);
    }
    of(key.device).allocated.increase(key.bytes);
    return {address, new Block{this, key, address}, &give_back, device()};
  }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    finish_current();
    std::memcpy(behind(to), behind(from), bytes);
  }
  [[nodiscard]] char* behind(const void* address) const {
    if (address == nullptr) {  // of a tensor without elements
      return nullptr;
    }
    return values_ + offset_of(address);
  }
  [[nodiscard]] c10::DeviceIndex device_of(const void* address) const {
    return static_cast<c10::DeviceIndex>(offset_of(address) / kBytes);
  }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t /*pool*/) override {
    const std::lock_guard lock(mutex_);
    give_back_to_device();
  }
  void recordStream(const c10::DataPtr& /*memory*/, c10::Stream /*stream*/) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const std::lock_guard lock(mutex_);
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0] = of(index).allocated;
    stats.reserved_bytes[0] = of(index).reserved;
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex /*index*/) override {}
  void resetPeakStats(c10::DeviceIndex index) override {
    const std::lock_guard lock(mutex_);
    of(index).allocated.reset_peak();
    of(index).reserved.reset_peak();
  }
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const std::lock_guard lock(mutex_);
    make_context(index);
    return {memory_limit() - static_cast<std::size_t>(of(index).reserved.current), memory_limit()};
  }

 private:
  static constexpr std::size_t kAlignment = 512;
  static constexpr std::size_t kBytes = std::size_t{1} << 32;  // of each device: one behind the other
  /// Of one device.
  struct Use {
    std::size_t addresses = 0;
    c10::CachingAllocator::Stat allocated;
    c10::CachingAllocator::Stat reserved;
  };
  struct Key {
    c10::DeviceIndex device;
    c10::StreamId stream;
    std::size_t bytes;
    bool of_capture;
    auto operator<=>(const Key&) const = default;
  };
  struct Block {
    Memory* memory;
    Key key;
    char* address;
  };

  /// STAND_IN_MEMORY: as many bytes.
  static std::size_t memory_limit() {
    const char* const given = std::getenv("STAND_IN_MEMORY");
    return given == nullptr ? kBytes : std::min(kBytes, std::stoul(given));
  }
  static char* map(int protection) {
    void* const place =
        mmap(nullptr, kMostDevices * kBytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) {
      throw std::bad_alloc();
    }
    return static_cast<char*>(place);
  }
  static void give_back(void* context) {
    const std::unique_ptr<Block> block(static_cast<Block*>(context));
    const std::lock_guard lock(block->memory->mutex_);
    block->memory->freed_[block->key].push_back(block->address);
    block->memory->of(block->key.device).allocated.decrease(block->key.bytes);
  }
  void give_back_to_device() {
    std::erase_if(freed_, [this](const auto& freed) {
      const auto& [key, addresses] = freed;
      of(key.device).reserved.decrease(key.of_capture ? 0 : key.bytes * addresses.size());
      return !key.of_capture;
    });
  }
  /// Filled with NaNs, whatever the type. No address is used for two sizes.
  char* fresh(const Key& key) {
    static const std::size_t kMost = memory_limit();
    const std::size_t bytes = key.bytes;
    Use& use = of(key.device);
    const auto fits = [&] { return static_cast<std::size_t>(use.reserved.current) + bytes <= kMost; };
    if (!fits()) {
      give_back_to_device();
    }
    TORCH_CHECK_WITH(OutOfMemoryError, fits() && use.addresses + bytes <= kBytes,
                     "stand-in out of memory: tried to allocate ", bytes, " bytes, and ", use.reserved.current, " of ",
                     kMost, " are in use");
    char* const address = addresses_ + static_cast<std::size_t>(key.device) * kBytes + use.addresses;
    std::memset(behind(address), 0xff, bytes);
    use.addresses += bytes;
    use.reserved.increase(bytes);
    return address;
  }
  [[nodiscard]] std::size_t offset_of(const void* address) const {
    const auto offset = static_cast<std::size_t>(static_cast<const char*>(address) - addresses_);
    TORCH_CHECK(offset < kMostDevices * kBytes, "an address of the host where one of the device is wanted");
    return offset;
  }
  Use& of(c10::DeviceIndex device) { return uses_.at(static_cast<std::size_t>(device)); }

  std::mutex mutex_;
  char* const addresses_ = map(PROT_NONE);
  char* const values_ = map(PROT_READ | PROT_WRITE);
  std::array<Use, kMostDevices> uses_;
  std::map<Key, std::vector<char*>> freed_;
};

Memory& all_memory() {
  static Memory all;
  return all;
}

}  // namespace

c10::DeviceAllocator& memory() { return all_memory(); }

void* behind(const void* address) { return all_memory().behind(address); }

c10::DeviceIndex device_of(const void* address) { return all_memory().device_of(address); }

at::Tensor place_of(const at::Tensor& tensor) {
  void* const address = tensor.is_cpu() ? tensor.mutable_data_ptr() : behind(tensor.mutable_data_ptr());
  return at::from_blob(address, tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
}

at::Tensor values_of(const at::Tensor& tensor) {
  finish_current();
  return place_of(tensor);
}

}  // namespace rollcall::testing_support::stand_in

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rollcall::data {

/// Uninitialised memory that only grows, so that work repeated on files of similar size stops allocating.
class KeptMemory {
 public:
  /// At least `bytes` bytes on a multiple of 64; what was there before is lost. Null where there is no memory left.
  [[nodiscard]] std::uint8_t* at_least(std::size_t bytes) {
    if (bytes > size_) {
      memory_.reset();
      memory_.reset(static_cast<std::uint8_t*>(::operator new[](bytes, kAlignment, std::nothrow)));
      size_ = memory_ ? bytes : 0;
    }
    return memory_.get();
  }

 private:
  static constexpr std::align_val_t kAlignment{64};
  struct Free {
    void operator()(std::uint8_t* memory) const { ::operator delete[](memory, kAlignment); }
  };

  std::unique_ptr<std::uint8_t[], Free> memory_;
  std::size_t size_ = 0;
};

}  // namespace rollcall::data

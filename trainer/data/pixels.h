#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace rollcall::data {

/// A rectangle of whole pixels.
struct Box {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  [[nodiscard]] int right() const { return left + width; }   ///< one past the last column
  [[nodiscard]] int bottom() const { return top + height; }  ///< one past the last row

  friend bool operator==(const Box&, const Box&) = default;
};

struct ImageSize {
  int width = 0;
  int height = 0;

  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

/// How many parts of `divisor` cover `dividend`; neither is negative.
inline int divided_up(int dividend, int divisor) { return (dividend + divisor - 1) / divisor; }

/// Bytes of a pixel in memory: red, green, blue and one that means nothing. Four keep every pixel in one SIMD lane.
inline constexpr int kPixelBytes = 4;

/// Bytes that decoders keep readable behind a picture's last pixel: what PixelView promises, and some more.
inline constexpr std::size_t kPixelSlack = 64;

/// The pixels of a part of a picture, 8 bits a channel, in memory that somebody else owns.
struct PixelView {
  const std::uint8_t* pixels = nullptr;  ///< of the area's top left corner
  std::ptrdiff_t row_bytes = 0;          ///< from a row to the next; readable: at least 16 bytes behind the last pixel
  Box area = {};                         ///< which part of the picture this is

  /// The pixel at (x, y) of the picture, which lies inside the area.
  [[nodiscard]] const std::uint8_t* at(int x, int y) const {
    return pixels + (y - area.top) * row_bytes + static_cast<std::ptrdiff_t>(x - area.left) * kPixelBytes;
  }
};

/// Element type of a batch's images. UInt8: levels 0 ... 255, which are normalised where the model computes.
enum class PixelType { Float32, BFloat16, UInt8 };

[[nodiscard]] constexpr std::size_t bytes_of(PixelType type) {
  return type == PixelType::Float32 ? 4 : type == PixelType::BFloat16 ? 2 : 1;
}

/// Where one sample goes: [height][width][3] elements of `type`, channels-last, in memory that somebody else owns.
struct OutputPixels {
  void* data = nullptr;
  PixelType type = PixelType::Float32;
  int width = 0;
  int height = 0;

  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
  }
};

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

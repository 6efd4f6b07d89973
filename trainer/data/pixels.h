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

/// Returns dividend / divisor, rounded up. Neither is negative.
inline int divided_up(int dividend, int divisor) { return (dividend + divisor - 1) / divisor; }

/// Bytes of a pixel in memory: red, green, blue and an unused one. With four bytes each pixel stays in one SIMD lane.
inline constexpr int kPixelBytes = 4;

/// Bytes that decoders keep readable after a picture's last pixel. PixelView promises fewer.
inline constexpr std::size_t kPixelSlack = 64;

/// A view of the pixels of a part of a picture, 8 bits per channel. It does not own the memory.
struct PixelView {
  const std::uint8_t* pixels = nullptr;  ///< the area's top left pixel
  std::ptrdiff_t row_bytes = 0;  ///< from a row to the next; at least 16 bytes after the last pixel are readable
  Box area = {};                 ///< the part of the picture that the view covers

  /// Returns the pixel at (x, y) of the picture, which must be inside the area.
  [[nodiscard]] const std::uint8_t* at(int x, int y) const {
    return pixels + (y - area.top) * row_bytes + static_cast<std::ptrdiff_t>(x - area.left) * kPixelBytes;
  }
};

/// The element type of a batch's images. UInt8 holds pixels 0 ... 255, which are normalised on the device of the model.
enum class PixelType { Float32, BFloat16, UInt8 };

[[nodiscard]] constexpr std::size_t bytes_of(PixelType type) {
  return type == PixelType::Float32 ? 4 : type == PixelType::BFloat16 ? 2 : 1;
}

/// The memory of one output sample: [height][width][3] elements of `type`, channels-last. It does not own the memory.
struct OutputPixels {
  void* data = nullptr;
  PixelType type = PixelType::Float32;
  int width = 0;
  int height = 0;

  [[nodiscard]] std::size_t elements() const {
    return static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
  }
};

/// Uninitialised memory that only grows, so that repeated work on files of similar size allocates nothing.
class ReusableBuffer {
 public:
  /// Returns at least `bytes` bytes, aligned to 64 bytes, with undefined content. Returns null when out of memory.
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

#pragma once

#include <cstddef>

namespace rollcall::data {

/// Element type of what the model sees.
enum class PixelType { Float32, BFloat16 };

[[nodiscard]] constexpr std::size_t bytes_of(PixelType type) { return type == PixelType::Float32 ? 4 : 2; }

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

}  // namespace rollcall::data

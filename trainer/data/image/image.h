#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace rollcall::data {

/// A decoded picture: 8-bit RGB, interleaved, rows from the top without padding. Owns its pixels; movable only.
struct Image {
  int width = 0;
  int height = 0;
  std::unique_ptr<std::uint8_t[]> pixels;  ///< height * width * 3

  /// Pixels are left uninitialised. Both sides must be positive.
  static Image make(int width, int height) {
    const std::size_t bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
    return {width, height, std::make_unique_for_overwrite<std::uint8_t[]>(bytes)};
  }

  [[nodiscard]] std::size_t row_bytes() const { return static_cast<std::size_t>(width) * 3; }
  [[nodiscard]] const std::uint8_t* row(int y) const {
    return pixels.get() + static_cast<std::size_t>(y) * row_bytes();
  }
};

/// A rectangle of whole pixels.
struct Box {
  int left = 0;
  int top = 0;
  int width = 0;
  int height = 0;

  friend bool operator==(const Box&, const Box&) = default;
};

}  // namespace rollcall::data

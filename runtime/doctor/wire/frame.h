#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace rollcall::doctor {

/// More than the facts of any node: a longer frame comes from a stranger.
inline constexpr std::size_t kLongestFrame = std::size_t{1} << 22;

/// The bytes of one message: its length (4 bytes, big endian), then `text`, at most kLongestFrame long.
[[nodiscard]] std::string encode_frame(std::string_view text);

/// Puts frames together again from what arrives in pieces. Not thread-safe.
class FrameBuffer {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  /// The next whole message, or nothing yet.
  [[nodiscard]] std::optional<std::string> next();
  /// The bytes cannot be a frame: this is no rollcall at the other end. Nothing more will come out.
  [[nodiscard]] bool broken() const;

 private:
  [[nodiscard]] std::optional<std::size_t> length() const;

  std::string bytes_;
};

}  // namespace rollcall::doctor

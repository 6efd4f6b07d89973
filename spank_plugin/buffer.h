#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rollcall::spank {

/// A growing byte buffer. Where memory is exhausted, it keeps its content, and ok() returns false from then on.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void append(std::string_view text);  ///< a NUL, which size_ does not count, follows the text
  void append(std::uint32_t number);   ///< in decimal
  /// Appends a frame of hook_wire.h.
  void frame(char kind, std::string_view payload);
  /// Returns `size` bytes to write to, which replace the content and are followed by a NUL; null without memory.
  [[nodiscard]] char* make_room(std::size_t size);
  /// Cuts the content at its first NUL, after a text was written to make_room().
  void cut_at_end();
  void clear() { size_ = 0; }

  [[nodiscard]] bool ok() const { return ok_; }
  [[nodiscard]] const char* c_str() const { return data_ == nullptr ? "" : data_; }
  [[nodiscard]] std::string_view text() const { return {data_, size_}; }

 private:
  [[nodiscard]] bool grow_to(std::size_t size);

  char* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
  bool ok_ = true;
};

/// Returns the size of the UTF-8 character that `text` begins with; 1 where it begins with another byte.
inline std::size_t character_size(const char* text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t size = byte(0) < 0xc2 || byte(0) > 0xf4 ? 1 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) {
      return 1;
    }
  }
  const bool too_long = (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  return too_long ? 1 : size;
}

/// Replaces control characters by '?', for users' terminals and logs: those of ASCII, and 0x80 to 0x9f as a character
/// of UTF-8 or as a byte of no character.
inline void make_printable(char* text) {
  for (std::size_t size = 0; *text != '\0'; text += size) {
    size = character_size(text);
    const auto last = static_cast<unsigned char>(text[size - 1]);
    const bool alone = size == 1 && (last < ' ' || (last >= 0x7f && last <= 0x9f));
    if (alone || (size == 2 && *text == '\xc2' && last <= 0x9f)) {
      text[0] = '?';
      text[size - 1] = '?';
    }
  }
}

}  // namespace rollcall::spank

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

/// Replaces control characters by '?', for users' terminals and logs.
inline void make_printable(char* text) {
  for (; *text != '\0'; ++text) {
    if (static_cast<unsigned char>(*text) < ' ' || *text == '\x7f') {
      *text = '?';
    }
  }
}

}  // namespace rollcall::spank

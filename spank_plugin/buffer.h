#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rollcall::spank {

/// Bytes that grow. Where memory is short it stays as it is, and ok() says so from then on.
class Buffer {
 public:
  Buffer() = default;
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void append(std::string_view text);  ///< a NUL follows, which does not count
  void append(std::uint32_t number);   ///< in decimal
  /// Adds a frame of hook_wire.h.
  void frame(char kind, std::string_view payload);
  /// Room for `size` bytes in place of what is there; null: no memory. What is written there is followed by a NUL.
  [[nodiscard]] char* make_room(std::size_t size);
  /// For who wrote a text there: up to its NUL.
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

/// Users' terminals and logs take lines, not control characters: these become '?'.
inline void make_printable(char* text) {
  for (; *text != '\0'; ++text) {
    if (static_cast<unsigned char>(*text) < ' ' || *text == '\x7f') {
      *text = '?';
    }
  }
}

}  // namespace rollcall::spank

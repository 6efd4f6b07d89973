#include "runtime/doctor/wire/frame.h"

#include <cstdint>

namespace rollcall::doctor {
namespace {

constexpr std::size_t kHeader = 4;

}  // namespace

std::string encode_frame(std::string_view text) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>((text.size() >> shift) & 0xffU);
  }
  return bytes.append(text);
}

std::optional<std::size_t> FrameBuffer::length() const {
  if (bytes_.size() < kHeader) {
    return std::nullopt;
  }
  std::size_t length = 0;
  for (std::size_t i = 0; i < kHeader; ++i) {
    length = (length << 8) | static_cast<unsigned char>(bytes_[i]);
  }
  return length;
}

bool FrameBuffer::broken() const { return length().value_or(0) > kLongestFrame; }

std::optional<std::string> FrameBuffer::next() {
  const std::optional<std::size_t> size = length();
  if (!size || broken() || bytes_.size() < kHeader + *size) {
    return std::nullopt;
  }
  std::string text = bytes_.substr(kHeader, *size);
  bytes_.erase(0, kHeader + *size);
  return text;
}

}  // namespace rollcall::doctor

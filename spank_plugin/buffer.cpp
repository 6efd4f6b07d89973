#include "spank_plugin/buffer.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "runtime/contract/hook_wire.h"

namespace rollcall::spank {

Buffer::~Buffer() { ::free(data_); }

bool Buffer::grow_to(std::size_t size) {
  if (size < room_) {
    return true;
  }
  const std::size_t room = 2 * size + 1;
  auto* const data = static_cast<char*>(::realloc(data_, room));
  if (data == nullptr) {
    ok_ = false;
    return false;
  }
  data_ = data;
  room_ = room;
  return true;
}

void Buffer::append(std::string_view text) {
  if (!text.empty() && grow_to(size_ + text.size())) {
    std::memcpy(data_ + size_, text.data(), text.size());
    size_ += text.size();
    data_[size_] = '\0';
  }
}

void Buffer::append(std::uint32_t number) {
  char text[16];
  std::snprintf(text, sizeof text, "%u", number);
  append(std::string_view(text));
}

void Buffer::frame(char kind, std::string_view payload) {
  const hook::Header header{kind, static_cast<std::uint32_t>(payload.size())};
  append({reinterpret_cast<const char*>(&header), sizeof header});
  append(payload);
}

char* Buffer::make_room(std::size_t size) {
  if (!grow_to(size)) {
    return nullptr;
  }
  size_ = size;
  data_[size] = '\0';
  return data_;
}

void Buffer::cut_at_end() { size_ = ::strnlen(data_, size_); }

}  // namespace rollcall::spank

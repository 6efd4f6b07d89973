#include "runtime/base/printable.h"

#include <algorithm>

namespace rollcall {

std::string printable(std::string text) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  std::ranges::replace_if(text, is_control, '?');
  return text;
}

}  // namespace rollcall

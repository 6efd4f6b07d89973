#pragma once

namespace rollcall::spank {

/// Users' terminals and logs take lines, not control characters: these become '?'.
inline void make_printable(char* text) {
  for (; *text != '\0'; ++text) {
    if (static_cast<unsigned char>(*text) < ' ' || *text == '\x7f') {
      *text = '?';
    }
  }
}

}  // namespace rollcall::spank

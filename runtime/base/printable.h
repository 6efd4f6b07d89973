#pragma once

#include <string>

namespace rollcall {

/// `text` with each control character replaced by '?': one line that cannot steer the terminal on which it is shown.
/// Everything that holds a user's, a file's or another node's bytes passes through here before it is printed. Bytes
/// above 0x7f stay, since names may be UTF-8.
[[nodiscard]] std::string printable(std::string text);

}  // namespace rollcall

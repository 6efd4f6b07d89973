#include "runtime/settings/toml_characters.h"

namespace rollcall::settings {
namespace {

/// A quote opens a string only where a value or key may begin.
bool may_begin_token(std::string_view line, std::size_t at) {
  return at == 0 || std::string_view(" \t=[{,.").find(line[at - 1]) != std::string_view::npos;
}

/// The position behind the string that begins at `at`, or the line's end.
std::size_t end_of_string(std::string_view line, std::size_t at) {
  const char quote = line[at];
  for (std::size_t i = at + 1; i < line.size(); ++i) {
    if (line[i] == '\\' && quote == '"') {
      ++i;
    } else if (line[i] == quote) {
      return i + 1;
    }
  }
  return line.size();
}

bool has_stray_character(std::string_view line) {
  std::size_t at = 0;
  while (at < line.size() && line[at] != '#') {
    if (static_cast<unsigned char>(line[at]) >= 0x80) {
      return true;
    }
    const bool opens = (line[at] == '"' || line[at] == '\'') && may_begin_token(line, at);
    at = opens ? end_of_string(line, at) : at + 1;
  }
  return false;
}

}  // namespace

std::optional<std::size_t> line_with_stray_character(std::string_view content) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (content.starts_with(kByteOrderMark)) {
    content.remove_prefix(kByteOrderMark.size());
  }
  for (std::size_t line = 1; !content.empty(); ++line) {
    const std::size_t end = content.find('\n');
    if (has_stray_character(content.substr(0, end))) {
      return line;
    }
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
  }
  return std::nullopt;
}

}  // namespace rollcall::settings

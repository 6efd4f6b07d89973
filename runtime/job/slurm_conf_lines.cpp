#include "runtime/job/slurm_files.h"

#include <cctype>
#include <cstddef>
#include <optional>

#include "runtime/base/text.h"

namespace rollcall::job {
namespace {

bool is_blank(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }
bool is_of_key(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.'; }

/// Removes the characters for which `belongs` holds from the front of `line`, and returns them.
template <typename Belongs>
std::string_view take_while(std::string_view& line, Belongs belongs) {
  std::size_t length = 0;
  while (length < line.size() && belongs(line[length])) {
    ++length;
  }
  const std::string_view taken = line.substr(0, length);
  line.remove_prefix(length);
  return taken;
}

bool take(std::string_view& line, std::string_view one_of) {
  const bool there = !line.empty() && one_of.find(line.front()) != std::string_view::npos;
  line.remove_prefix(there ? 1 : 0);
  return there;
}

/// Removes a quoted value from the front of `line`. A blank must follow it; otherwise the quotes are part of the value.
std::optional<std::string_view> take_quoted(std::string_view& line) {
  const std::size_t end = line.starts_with('"') ? line.find('"', 1) : std::string_view::npos;
  if (end == std::string_view::npos || (end + 1 < line.size() && !is_blank(line[end + 1]))) {
    return std::nullopt;
  }
  const std::string_view value = line.substr(1, end - 1);
  line.remove_prefix(end + 1);
  return value;
}

/// Removes the comment. Escapes stay unchanged.
std::string_view without_comment(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '#') {
      return line.substr(0, i);
    }
    i += line[i] == '\\' ? 1U : 0U;
  }
  return line;
}

/// Returns whether the next line continues this one, and then removes the `\` at its end and the blanks behind that.
bool continues(std::string_view& line) {
  const std::size_t last = line.find_last_not_of(" \t\r\f\v");
  const std::size_t before = last == std::string_view::npos ? last : line.find_last_not_of('\\', last);
  const std::size_t count = last == std::string_view::npos ? 0 : last - before;  // npos is -1: all of them
  if (count % 2 == 0) {
    return false;
  }
  line = line.substr(0, last);
  return true;
}

std::string without_escapes(std::string_view line) {
  std::string text;
  for (std::size_t i = 0; i < line.size(); ++i) {
    i += line[i] == '\\' ? 1U : 0U;
    text += i < line.size() ? std::string(1, line[i]) : "";
  }
  return text;
}

}  // namespace

std::vector<std::string> slurm_conf_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::string whole;
  for (const std::string& one : split(text, '\n')) {
    std::string_view line = without_comment(one);
    const bool more = continues(line);
    whole += line;
    if (!more) {
      lines.push_back(without_escapes(whole));
      whole.clear();
    }
  }
  lines.push_back(without_escapes(whole));
  return lines;
}

std::vector<std::pair<std::string, std::string>> slurm_conf_pairs(std::string_view line) {
  std::vector<std::pair<std::string, std::string>> pairs;
  while (true) {
    (void)take_while(line, is_blank);
    const std::string_view key = take_while(line, is_of_key);
    (void)take_while(line, is_blank);
    (void)take(line, "-*+/");
    if (key.empty() || !take(line, "=")) {
      return pairs;
    }
    (void)take_while(line, is_blank);
    const std::optional<std::string_view> quoted = take_quoted(line);
    const std::string_view value = quoted ? *quoted : take_while(line, [](char c) { return !is_blank(c); });
    if (!quoted && value.empty()) {
      return pairs;
    }
    pairs.emplace_back(key, value);
  }
}

}  // namespace rollcall::job

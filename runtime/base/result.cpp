#include "runtime/base/result.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall {

namespace {

/// Cuts a text to at most `most` bytes and appends its full length.
std::string cut(const std::string& text, std::size_t most) {
  if (text.size() <= most) {
    return text;
  }
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xc0U) == 0x80) {  // within a character of UTF-8
    most -= 1;
  }
  return text.substr(0, most) + "... (" + std::to_string(text.size()) + " bytes)";
}

}  // namespace

std::string Error::text() const {
  constexpr std::size_t kMostOfAName = 1000;      // a path may be long
  constexpr std::size_t kMostOfASentence = 4000;  // some list ranks or folders
  std::string text = cut(setting, kMostOfAName);
  if (!value.empty()) {
    text += ": " + cut(value, kMostOfAName);
  }
  text += ": " + cut(reason, kMostOfASentence);
  if (!action.empty()) {
    text += "; try " + cut(action, kMostOfASentence);
  }
  return printable(text);
}

std::string Error::message() const { return "rollcall: " + text(); }

Error fail(std::string setting, std::string value, std::string reason, std::string action, ErrorKind kind) {
  return Error{std::move(setting), std::move(value), std::move(reason), std::move(action), kind};
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

std::string serialise(const Result<void>& outcome) {
  if (outcome) {
    return "";
  }
  const Error& error = outcome.error();
  std::string text = std::to_string(static_cast<int>(error.kind));
  for (std::string field : {error.setting, error.value, error.reason, error.action}) {
    std::ranges::replace(field, '\0', '?');
    text += '\0' + field;
  }
  return text;
}

std::optional<Result<void>> parse_outcome(std::string_view text) {
  if (text.empty()) {
    return Result<void>();
  }
  const std::vector<std::string> fields = split(text, '\0');
  const auto number = parse_integer<int>(fields[0]);
  const auto kind = number ? error_kind(*number) : std::nullopt;
  if (fields.size() != 5 || !kind) {
    return std::nullopt;
  }
  return fail(fields[1], fields[2], fields[3], fields[4], *kind);
}

}  // namespace rollcall

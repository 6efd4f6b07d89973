#include "runtime/launchers/launcher.h"

#include <utility>

#include "runtime/base/text.h"

namespace rollcall::launchers {

Error damaged_variable(std::string_view name, const std::string& value, const std::string& reason,
                       const std::string& launcher) {
  return fail(std::string(name), value, reason, "reporting it: " + launcher + " sets it", ErrorKind::Mismatch);
}

Numbers::Numbers(const Environment& environment, std::string launcher)
    : environment_(environment), launcher_(std::move(launcher)) {}

std::optional<std::uint32_t> Numbers::optional(std::string_view name) {
  const std::optional<std::string> text = environment_.get_non_empty(name);
  if (!text) {
    return std::nullopt;
  }
  const auto number = parse_integer<std::uint32_t>(*text);
  if (!number && !error_) {
    error_ = damaged_variable(name, *text, "must be a number", launcher_);
  }
  return number;
}

std::uint32_t Numbers::required(std::string_view name) {
  const std::optional<std::uint32_t> number = optional(name);
  if (!number && !error_) {
    error_ = damaged_variable(name, "", "is not set in this step", launcher_);
  }
  return number.value_or(0);
}

}  // namespace rollcall::launchers

#include "runtime/base/outcome_text.h"

#include <algorithm>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall {

std::string serialise(const Result<void>& outcome) {
  if (outcome) {
    return "";
  }
  const Error& error = outcome.error();
  std::string text = std::to_string(to_int(error.exit_code));
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
  const auto code = parse_integer<int>(fields[0]);
  if (fields.size() != 5 || !code) {
    return std::nullopt;
  }
  return fail(fields[1], fields[2], fields[3], fields[4], static_cast<ExitCode>(*code));
}

}  // namespace rollcall

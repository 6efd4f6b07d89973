#include "runtime/base/error.h"

#include <system_error>
#include <utility>

#include "runtime/base/printable.h"

namespace rollcall {

std::string Error::message() const {
  std::string text = "rollcall: " + setting;
  if (!value.empty()) {
    text += ": " + value;
  }
  text += ": " + reason;
  if (!action.empty()) {
    text += "; try " + action;
  }
  return printable(std::move(text));
}

Error fail(std::string setting, std::string value, std::string reason, std::string action, ExitCode exit_code) {
  return Error{std::move(setting), std::move(value), std::move(reason), std::move(action), exit_code};
}

std::string errno_text(int error_number) { return std::generic_category().message(error_number); }

}  // namespace rollcall

#pragma once

#include <string>

#include "runtime/contract/exit_codes.h"

namespace rollcall {

/// An expected failure, as a value. The four texts are what a user needs at 2 a.m.: which setting, which value, why it
/// does not work, what to do. None ends in punctuation; `action` starts with a verb ("set it to ...").
struct Error {
  std::string setting;  ///< option, key, variable or thing concerned: "port.range", "--data", "MASTER_PORT"
  std::string value;    ///< the value that was refused; empty where none is concerned
  std::string reason;   ///< what is wrong with it
  std::string action;   ///< what to try; empty only where nothing can be advised
  ExitCode exit_code = ExitCode::Usage;

  /// "rollcall: <setting>: <value>: <reason>; try <action>" on one line, control characters replaced by '?'.
  [[nodiscard]] std::string message() const;
};

/// Makes an Error. Reads well at the point of return: `return fail("port.range", text, "is empty", "setting it to
/// ...")`.
[[nodiscard]] Error fail(std::string setting, std::string value, std::string reason, std::string action,
                         ExitCode exit_code = ExitCode::Usage);

/// The text of an errno value, thread-safe ("No space left on device").
[[nodiscard]] std::string errno_text(int error_number);

}  // namespace rollcall

#pragma once

#include "runtime/contract/exit_codes.h"

namespace rollcall::spank {

/// An error with its message, like rollcall::Error, for code that links only libc.
struct Failure {
  int exit_code = 0;     ///< 0: success
  char text[1024] = "";  ///< "rollcall: SETTING: VALUE: what is wrong; try ACTION"; empty: it has been reported

  explicit operator bool() const { return exit_code != 0; }
};

[[nodiscard, gnu::format(printf, 2, 3)]] Failure failed(ExitCode code, const char* format, ...);

}  // namespace rollcall::spank

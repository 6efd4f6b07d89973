#pragma once

#include "runtime/contract/exit_codes.h"

namespace rollcall::spank {

/// Why something cannot be, as users read it; the counterpart of rollcall::Error for code that links libc alone.
struct Failure {
  int exit_code = 0;     ///< 0: all is well
  char text[1024] = "";  ///< "rollcall: SETTING: VALUE: what is wrong; try ACTION"; empty: it has been told

  explicit operator bool() const { return exit_code != 0; }
};

[[nodiscard, gnu::format(printf, 2, 3)]] Failure failed(ExitCode code, const char* format, ...);

}  // namespace rollcall::spank

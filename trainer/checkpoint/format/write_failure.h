#pragma once

#include <string>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {

/// A checkpoint that cannot be written (InputOutput), with the advice for want of space, permissions and the like.
[[nodiscard]] inline Error write_failure(const std::string& path, const std::string& reason) {
  return fail("checkpoint", path, reason,
              "freeing space or quota there, or setting --checkpoint-dir to another file system",
              ExitCode::InputOutput);
}

}  // namespace rollcall::checkpoint::format

#pragma once

#include <string_view>

#include "runtime/base/untrusted_json.h"

namespace rollcall::checkpoint::format {

/// Limits for a JSON text of a checkpoint, which has an entry of about ten bytes a value for each tensor.
[[nodiscard]] inline JsonLimits limits_of(std::string_view text) { return {.values = 1024 + text.size() / 4}; }

}  // namespace rollcall::checkpoint::format

#pragma once

#include <string>

namespace rollcall::settings {

/// docs/environment.md, generated from contract/env_table.h: what `rollcall --print-environment-markdown` prints; a
/// test compares them.
[[nodiscard]] std::string environment_markdown();

}  // namespace rollcall::settings

#pragma once

#include <string>

namespace rollcall::train {

/// Returns what `rollcall-train --version --json` prints: command_line::build_facts(), with "libtorch" and "features".
/// A feature that is a plugin counts if this installation has the plugin's file, whether or not it can be loaded here.
[[nodiscard]] std::string version_json();

}  // namespace rollcall::train

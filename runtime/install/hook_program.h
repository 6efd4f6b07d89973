#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/base/trusted_file.h"
#include "runtime/install/image_root.h"

namespace rollcall::install {

// These functions find and check the program `rollcall` that the plugin runs, by the plugin's rules
// (spank_plugin/program.h). Paths are those of the system below `root`.

/// Returns bin/rollcall in the nearest folder above the plugin at `plugin`, with links resolved; nothing where there is
/// none.
[[nodiscard]] std::optional<std::string> program_above(const std::string& plugin, const ImageRoot& root);

/// Finds the protocol of the plugin or the program (hook_wire.h), "(protocol 1)", in its bytes; empty where there is
/// none. Pure.
[[nodiscard]] std::string hook_protocol(std::string_view bytes);

/// Checks that the plugin with `plugin_bytes` at `plugin` would run `program`, which is empty where there is none above
/// it. `owners` are trusted besides root and the plugin's owner. Errors: NotFound where it does not exist;
/// Configuration where others can change it; Mismatch where its protocol differs from the plugin's.
[[nodiscard]] Result<void> check_program(const std::string& program, const std::string& plugin,
                                         std::string_view plugin_bytes, const TrustedOwners& owners,
                                         const ImageRoot& root);

/// Checks that both have the same protocol. Error (Mismatch) with both files otherwise.
[[nodiscard]] Result<void> check_protocols(const std::string& program, std::string_view program_bytes,
                                           const std::string& plugin, std::string_view plugin_bytes);

}  // namespace rollcall::install

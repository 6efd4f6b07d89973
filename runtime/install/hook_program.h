#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/believed_file.h"
#include "runtime/base/result.h"
#include "runtime/install/image_root.h"

namespace rollcall::install {

// The program `rollcall` that the plugin runs, as the plugin will find and judge it (spank_plugin/program.h).
// Paths are as the system below `root` sees them.

/// bin/rollcall in the nearest folder above the plugin at `plugin`, without links; nothing where there is none.
[[nodiscard]] std::optional<std::string> program_above(const std::string& plugin, const ImageRoot& root);

/// What the plugin and the program say to each other (hook_wire.h), "(protocol 1)", from the bytes of one of them;
/// empty: they tell nothing. Pure.
[[nodiscard]] std::string hook_protocol(std::string_view bytes);

/// Whether the plugin of `plugin_bytes` at `plugin` would run `program`; empty: there is none above it. `owners`: who
/// is believed besides root and the plugin's owner. Errors: NotFound where it is not there; Configuration where others
/// can change it; Mismatch where it and the plugin do not speak the same protocol.
[[nodiscard]] Result<void> check_program(const std::string& program, const std::string& plugin,
                                         std::string_view plugin_bytes, const Believed& owners, const ImageRoot& root);

/// Whether they speak the same protocol. Error (Mismatch) otherwise, which names the two files.
[[nodiscard]] Result<void> check_protocols(const std::string& program, std::string_view program_bytes,
                                           const std::string& plugin, std::string_view plugin_bytes);

}  // namespace rollcall::install

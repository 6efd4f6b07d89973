#pragma once

#include <string>
#include <string_view>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

// Files that belong to a training: the TorchScript file that setting `model` may name instead of a network of this
// program, and the one that `class-weights` may name.
namespace rollcall::config {

/// Adds to these settings, where they name a file, the CRC-32C of its content, "net.pt#1a2b3c4d", so that ranks and
/// checkpoints compare what the file holds. Reads the files. Errors (NoInput): one cannot be read; (Usage): the name of
/// one ends like a checksum.
[[nodiscard]] Result<void> identify_files(settings::Settings& settings, const Environment& environment);
/// The same for `model` alone, where nothing is trained.
[[nodiscard]] Result<void> identify_script(settings::Settings& settings, const Environment& environment);

/// Returns the value without the checksum that identify_files() added.
[[nodiscard]] std::string_view without_checksum(std::string_view value);

/// Returns whether both values are of files with equal content; where it is unknown of one, with equal names.
[[nodiscard]] bool is_same_file(std::string_view one, std::string_view other);

/// Returns the path of the file; empty if the setting names a network of this program. Errors: those of expand_path().
[[nodiscard]] Result<std::string> script_path(const settings::Settings& settings, const Environment& environment);

/// Returns whether the value names a file, and no network of this program.
[[nodiscard]] bool is_script(std::string_view model);

/// Confirms that the user named a script, as the model in the weights `file` is one, `then`. Error (Mismatch): it is
/// not.
[[nodiscard]] Result<void> confirm_script(const settings::Settings& settings, const std::string& then,
                                          const std::string& file);

/// Confirms, after identify_files(), that the script is the one with which the weights in `file` were trained; `then`:
/// the setting of that training. Error (Mismatch): it is not.
[[nodiscard]] Result<void> confirm_same_script(const settings::Settings& settings, const std::string& then,
                                               const std::string& file);

}  // namespace rollcall::config

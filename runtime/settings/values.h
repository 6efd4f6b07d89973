#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// The normal form of a value ("on" of a switch is "true", "ib0, ib1" is "ib0,ib1"), or why the setting refuses it.
/// `subject` is the error's `setting`. No value may hold control characters. Pure.
[[nodiscard]] Result<std::string> normal_form(const Setting& setting, std::string_view text,
                                              const std::string& subject);

/// What the setting accepts, as a phrase for errors and docs: "a whole number from 0 to 1024, or auto".
[[nodiscard]] std::string accepted_values(const Setting& setting);

/// The whole of `text` as a finite decimal number ("3e-4"), or nothing.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// "20000-29999" as first and last port, 1 <= first <= last <= 65535, or nothing.
[[nodiscard]] std::optional<std::pair<std::uint16_t, std::uint16_t>> parse_port_range(std::string_view text);

/// Replaces ${SCRATCH}, ${HOME}, ${USER}, ${TMPDIR}, ${SLURM_JOB_ID} and ${XDG_RUNTIME_DIR} by their values; nothing
/// else is expanded, and no shell is involved. The replaced values are not expanded again.
/// `setting` names the setting in errors: a variable that is unset or empty, or what check_path_variables() refuses.
[[nodiscard]] Result<std::string> expand_path(std::string_view path, const Environment& environment,
                                              const std::string& setting);

/// Refuses what a user would expect a shell to expand and we do not: other ${NAMES}, $NAME without braces, a leading
/// "~". Every Kind::Path value has passed it.
[[nodiscard]] Result<void> check_path_variables(std::string_view path, const std::string& setting);

}  // namespace rollcall::settings

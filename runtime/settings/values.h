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

/// Returns the normal form of a value ("true" for "on", "ib0,ib1" for "ib0, ib1"), or why the setting refuses it.
/// `subject` is the error's `setting`. Control characters are refused. Pure.
[[nodiscard]] Result<std::string> normal_form(const Setting& setting, std::string_view text,
                                              const std::string& subject);

/// Returns what the setting accepts, for errors and docs: "a whole number from 0 to 1024, or auto".
[[nodiscard]] std::string accepted_values(const Setting& setting);

/// Returns `text` as a finite decimal number ("3e-4"), or nothing if it is not one.
[[nodiscard]] std::optional<double> parse_number(std::string_view text);

/// Returns first and last port of "20000-29999", 1 <= first <= last <= 65535, or nothing.
[[nodiscard]] std::optional<std::pair<std::uint16_t, std::uint16_t>> parse_port_range(std::string_view text);

/// Replaces ${SCRATCH}, ${HOME}, ${USER}, ${TMPDIR}, ${SLURM_JOB_ID} and ${XDG_RUNTIME_DIR} with their values. Nothing
/// else is expanded, and values are not expanded again. `setting` is the setting that errors name. Errors: a variable
/// is unset, empty or not an absolute path; those of check_path_variables().
[[nodiscard]] Result<std::string> expand_path(std::string_view path, const Environment& environment,
                                              const std::string& setting);

/// Refuses what a shell would expand and expand_path() does not: other ${NAMES}, $NAME without braces, a leading "~".
/// Every value of Kind::Path was checked by it.
[[nodiscard]] Result<void> check_path_variables(std::string_view path, const std::string& setting);

}  // namespace rollcall::settings

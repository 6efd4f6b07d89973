#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/settings/setting.h"

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

}  // namespace rollcall::settings

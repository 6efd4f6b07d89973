#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "runtime/doctor/finding.h"
#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// One check: a row of the table from which `rollcall doctor --list`, --only and --skip come. Checks are pure: what
/// they judge was gathered before.
struct Check {
  std::string_view name;     ///< "head-port"
  std::string_view summary;  ///< one clause: what is looked at
  Findings (*run)(const World& world) = nullptr;
};

/// All checks, in the order of the report.
[[nodiscard]] std::span<const Check> all_checks();

/// Runs the checks of these names (all where `names` is empty).
[[nodiscard]] std::vector<Checked> run_checks(const World& world, const std::vector<std::string_view>& names);

}  // namespace rollcall::doctor

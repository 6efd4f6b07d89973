#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/doctor/world.h"

namespace rollcall::doctor {

enum class Status {
  Good,
  Notice,  ///< works, but some program may trip over it; no failure of the whole
  Bad,
  Absent,  ///< there is nothing to check here, or it was not possible
};

/// One line of the report: what a check found on some nodes.
struct Finding {
  Status status = Status::Good;
  std::vector<std::string> hosts;  ///< whom it concerns; empty: all nodes
  std::string reason;              ///< one clause: what was seen
  std::string action;              ///< Notice, Bad: what to do, starts with a verb; otherwise empty
};

using Findings = std::vector<Finding>;

/// A finding with the name of the check that made it ("head-port").
struct Checked {
  std::string_view check;
  Finding finding;
};

/// "good", "notice", "bad" or "absent": the word in JSON.
[[nodiscard]] constexpr std::string_view status_name(Status status) {
  switch (status) {
    case Status::Good:
      return "good";
    case Status::Notice:
      return "notice";
    case Status::Bad:
      return "bad";
    case Status::Absent:
      return "absent";
  }
  return "";
}

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

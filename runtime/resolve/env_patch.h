#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::resolve {

enum class Action {
  Set,   ///< put `value` into the environment
  Keep,  ///< the user set it: leave it alone
  Unset  ///< remove it
};

/// One variable, what happens to it, and why: a row of `rollcall env`.
struct EnvChange {
  std::string name;
  std::string value;  ///< with Keep: the user's value
  Action action = Action::Set;
  std::string origin;  ///< who knows it: "slurm", "pmix", "setting host.template", "user", "network"
  std::string reason;  ///< one clause for a person: "rank 0 is on jwb0001, rule {host}i, resolves to 10.78.0.1"
};

/// Everything that rollcall does to one task's environment.
struct EnvPatch {
  std::vector<EnvChange> changes;
  std::vector<std::string> warnings;  ///< one-line texts without the "rollcall:" prefix

  [[nodiscard]] const EnvChange* find(std::string_view name) const;
};

/// The environment after the patch.
[[nodiscard]] Environment apply(const EnvPatch& patch, Environment environment);

}  // namespace rollcall::resolve

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_table.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/values.h"

namespace rollcall::resolve {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";  // in effect the default of execvp(3)

/// Returns `path` with `front` once, at its front, and without `leftover`, the bin folder that an outer rollcall added.
std::string with_front(const std::string& path, const std::string& front, const std::optional<std::string>& leftover) {
  std::string result = front;
  for (const std::string& folder : split(path, ':')) {
    if (folder != front && folder != leftover) {
      result += ":" + folder;
    }
  }
  return result;
}

constexpr std::string_view kSetting = "variables";

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, fits);
}

Error refused(const std::string& entry, std::string reason, std::string action) {
  return fail(std::string(kSetting), entry, std::move(reason), std::move(action), ErrorKind::Configuration);
}

}  // namespace

// Sets the variables of `bin/activate` (PEP 405), except the prompt.
Result<void> add_venv(const Inputs& inputs, PatchBuilder& patch) {
  const std::string& configured = inputs.settings.venv;
  if (configured.empty()) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string root, settings::expand_path(configured, inputs.user, "venv"));
  const auto users = patch.users(env::kVirtualEnv);
  patch.propose({env::kVirtualEnv, root, "setting venv", "as configured", "venv"});
  if (users && *users != root) {
    return {};
  }
  const auto outer = inputs.user.get_non_empty(env::kVirtualEnv);
  const std::optional<std::string> leftover = outer && !users ? std::optional(*outer + "/bin") : std::nullopt;
  const std::string path = inputs.user.get_non_empty(env::kPath).value_or(std::string(kDefaultPath));
  patch.set_unmarked({std::string(env::kPath), with_front(path, root + "/bin", leftover), Action::Set, "setting venv",
                      fmt::format("{}/bin in front", configured)});
  return {};
}

Result<void> add_variables(const Inputs& inputs, PatchBuilder& patch) {
  for (const std::string& entry : inputs.settings.variables) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || !is_name(name)) {
      return refused(entry, "must be NAME=VALUE", "writing the name with letters, digits and underscores only");
    }
    if (env::find_variable(name) != nullptr || name.starts_with("ROLLCALL_") || name.starts_with("SLURM")) {
      return refused(entry, "is a variable that rollcall or Slurm uses",
                     "using the setting for it (see docs/reference/environment.md)");
    }
    patch.propose({name, entry.substr(equals + 1), "setting variables", "as configured", kSetting});
  }
  return {};
}

Result<void> add_debug(const Inputs& inputs, PatchBuilder& patch) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kVariables{Pair{"TORCH_DISTRIBUTED_DEBUG", "DETAIL"}, Pair{"TORCH_CPP_LOG_LEVEL", "INFO"},
                                  Pair{"TORCH_SHOW_CPP_STACKTRACES", "1"}, Pair{"TORCH_LOGS", "+distributed"},
                                  Pair{"NCCL_DEBUG", "INFO"}};
  if (!inputs.settings.debug) {
    return {};
  }
  for (const auto& [name, value] : kVariables) {
    patch.propose({name, std::string(value), "setting debug", "diagnostics are on", "debug"});
  }
  return {};
}

}  // namespace rollcall::resolve

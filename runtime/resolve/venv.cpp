#include <fmt/format.h>

#include <optional>
#include <string>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/resolve/groups.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/path_expansion.h"

namespace rollcall::resolve {
namespace {

constexpr std::string_view kDefaultPath = "/usr/local/bin:/usr/bin:/bin";  // what execvp(3) would search, in effect

/// `path` with `front` at its front once, and without `leftover`, the bin folder of an outer rollcall's environment.
std::string with_front(const std::string& path, const std::string& front, const std::optional<std::string>& leftover) {
  std::string result = front;
  for (const std::string& folder : split(path, ':')) {
    if (folder != front && folder != leftover) {
      result += ":" + folder;
    }
  }
  return result;
}

}  // namespace

std::string configured_venv(const settings::Settings& settings) {
  const std::string& venv = settings.text("venv");
  const std::string& root = settings.text("venv.root");
  const bool is_path = venv.find('/') != std::string::npos || venv.starts_with('$');
  return venv.empty() || is_path || root.empty() ? venv : root + "/" + venv;
}

// What `bin/activate` does, less the prompt (PEP 405).
Result<void> add_venv(const Inputs& inputs, PatchBuilder& patch) {
  const std::string configured = configured_venv(inputs.settings);
  if (configured.empty()) {
    return {};
  }
  const Result<std::string> root = settings::expand_path(configured, inputs.user, "venv");
  if (!root) {
    return root.error();
  }
  const auto users = patch.users(env::kVirtualEnv);
  patch.propose({env::kVirtualEnv, *root, "setting venv", "as configured", "venv"});
  if (users && *users != *root) {
    return {};
  }
  const auto outer = inputs.user.get_non_empty(env::kVirtualEnv);
  const std::optional<std::string> leftover = outer && !users ? std::optional(*outer + "/bin") : std::nullopt;
  const std::string path = inputs.user.get_non_empty(env::kPath).value_or(std::string(kDefaultPath));
  patch.set_unmarked({std::string(env::kPath), with_front(path, *root + "/bin", leftover), Action::Set, "setting venv",
                      fmt::format("{}/bin in front", configured)});
  return {};
}

}  // namespace rollcall::resolve

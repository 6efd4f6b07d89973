#include <algorithm>
#include <string>
#include <vector>

#include "runtime/contract/env_table.h"
#include "runtime/resolve/groups.h"

namespace rollcall::resolve {
namespace {

constexpr std::string_view kSetting = "variables";

bool is_name(std::string_view text) {
  const auto letter = [](char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, fits);
}

Error refused(const std::string& entry, std::string reason, std::string action) {
  return fail(std::string(kSetting), entry, std::move(reason), std::move(action), ExitCode::Configuration);
}

}  // namespace

Result<void> add_variables(const Inputs& inputs, PatchBuilder& patch) {
  const std::vector<std::string> entries = inputs.settings.list(kSetting);
  if (entries == std::vector<std::string>{"none"}) {
    return {};
  }
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos || !is_name(name)) {
      return refused(entry, "is not NAME=VALUE", "NAME=VALUE with a name of letters, digits and underscores");
    }
    if (env::find_variable(name) != nullptr || name.starts_with("ROLLCALL_") || name.starts_with("SLURM")) {
      return refused(entry, "is a variable with a meaning of its own here",
                     "the setting that shapes it: see docs/environment.md");
    }
    patch.propose({name, entry.substr(equals + 1), "setting variables", "as configured", kSetting});
  }
  return {};
}

}  // namespace rollcall::resolve

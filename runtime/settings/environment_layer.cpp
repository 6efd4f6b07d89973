#include <algorithm>

#include "runtime/base/text.h"
#include "runtime/contract/env_table.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {
namespace {

constexpr std::string_view kPrefix = "ROLLCALL_";

const Setting* setting_of_variable(Table table, std::string_view variable) {
  const auto found =
      std::ranges::find_if(table, [&](const Setting& setting) { return variable_name(setting.name) == variable; });
  return found == table.end() ? nullptr : &*found;
}

/// The variable that was probably meant. Compared without the common prefix, which would make any two look alike.
std::optional<std::string> nearest_variable(const std::vector<Table>& tables, std::string_view variable) {
  std::vector<std::string> known;
  for (const Table table : tables) {
    for (const Setting& setting : table) {
      known.push_back(variable_name(setting.name).substr(kPrefix.size()));
    }
  }
  const auto meant = nearest(variable.substr(kPrefix.size()), known);
  return meant ? std::optional(std::string(kPrefix) + *meant) : std::nullopt;
}

}  // namespace

Result<void> apply_environment(Settings& settings, const Environment& environment,
                               std::span<const Table> other_tables) {
  std::vector<Table> tables(other_tables.begin(), other_tables.end());
  tables.push_back(settings.table());
  for (const auto& [name, value] : environment.variables()) {
    if (!name.starts_with(kPrefix) || env::find_variable(name) != nullptr) {
      continue;
    }
    if (const Setting* const own = setting_of_variable(settings.table(), name)) {
      Result<void> applied = settings.set(own->name, value, name);
      if (!applied) {
        return applied;
      }
      continue;
    }
    const bool foreign = std::ranges::any_of(
        other_tables, [&variable = name](Table table) { return setting_of_variable(table, variable) != nullptr; });
    const std::optional<std::string> meant = nearest_variable(tables, name);
    if (!foreign && (meant || !other_tables.empty())) {
      return fail(name, value, "unknown setting", meant ? *meant : "unsetting it");
    }
  }
  return {};
}

}  // namespace rollcall::settings

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/settings/settings.h"
#include "runtime/settings/site_profile.h"
#include "runtime/settings/toml_source.h"
#include "runtime/settings/value_check.h"

namespace rollcall::settings {
namespace {

constexpr std::array kProgramSections{kTrainerSection};

/// One file on its way into one Settings.
struct TomlFile {
  Settings& settings;
  const std::string& path;

  [[nodiscard]] std::string place(const toml::node& node, const std::string& key) const {
    return settings::place(path, node, key);
  }
  [[nodiscard]] bool is_site_profile() const { return settings.site() && settings.site()->file == path; }
};

/// ["ib0", "ib1"] as "ib0,ib1"; nothing where an item is no word.
std::optional<std::string> array_text(const toml::array& array) {
  std::string joined;
  for (const toml::node& item : array) {
    const std::optional<std::string> word = scalar_text(item);
    if (!word || word->find(',') != std::string::npos) {
      return std::nullopt;
    }
    joined += (joined.empty() ? "" : ",") + *word;
  }
  return joined;
}

Result<void> apply_value(const TomlFile& file, const toml::node& node, const std::string& key) {
  const Setting* const setting = find_setting(file.settings.table(), key);
  const bool list = setting != nullptr && setting->kind == Kind::List;
  const std::optional<std::string> text = list && node.is_array() ? array_text(*node.as_array()) : scalar_text(node);
  if (setting != nullptr && !text) {
    return fail(file.place(node, key), "", "has a value of the wrong type", accepted_values(*setting),
                ExitCode::Configuration);
  }
  const Result<void> applied = file.settings.set(key, text.value_or(""), file.path);
  if (!applied) {
    const Error& error = applied.error();
    return fail(file.place(node, key), error.value, error.reason, error.action, ExitCode::Configuration);
  }
  return {};
}

bool is_program_section(std::string_view name) {
  return std::ranges::find(kProgramSections, name) != kProgramSections.end();
}

Result<void> apply_table(const TomlFile& file, const toml::table& table, const std::string& prefix, bool top_level) {
  for (const auto& [key, node] : table) {
    if (top_level && is_program_section(key.str())) {
      continue;
    }
    if (top_level && key.str() == kSiteSection) {
      if (!file.is_site_profile()) {
        return fail(file.place(node, std::string(kSiteSection)), "", "belongs into a site profile",
                    "leaving the section out", ExitCode::Configuration);
      }
      continue;
    }
    const std::string name = prefix + std::string(key.str());
    Result<void> applied =
        node.is_table() ? apply_table(file, *node.as_table(), name + ".", false) : apply_value(file, node, name);
    if (!applied) {
      return applied;
    }
  }
  return {};
}

Result<void> apply_section(const TomlFile& file, const toml::table& root, std::string_view section) {
  const toml::node* const node = root.get(section);
  if (node == nullptr) {
    return {};
  }
  if (!node->is_table()) {
    return fail(file.place(*node, std::string(section)), "", "is not a table", fmt::format("[{}]", section),
                ExitCode::Configuration);
  }
  return apply_table(file, *node->as_table(), "", false);
}

}  // namespace

Result<void> apply_toml(Settings& settings, const toml::table& root, const std::string& path,
                        std::string_view section) {
  const TomlFile file{settings, path};
  return section.empty() ? apply_table(file, root, "", true) : apply_section(file, root, section);
}

Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required, std::string_view section) {
  const Result<std::optional<toml::table>> root = read_toml(path, required);
  if (!root) {
    return root.error();
  }
  return *root ? apply_toml(settings, **root, path, section) : Result<void>();
}

}  // namespace rollcall::settings

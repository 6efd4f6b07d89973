#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/settings/settings.h"
#include "runtime/settings/toml_library.h"
#include "runtime/settings/value_check.h"

namespace rollcall::settings {
namespace {

constexpr std::array kProgramSections{kTrainerSection};

/// One file on its way into one Settings.
struct TomlFile {
  Settings& settings;
  const std::string& path;

  [[nodiscard]] std::string place(const toml::node& node, const std::string& key) const {
    return fmt::format("{}:{}: {}", path, node.source().begin.line, key);
  }
};

/// A value that stands for itself as text: string, integer, number or boolean.
std::optional<std::string> scalar_text(const toml::node& node) {
  if (const auto* text = node.as_string()) {
    return text->get();
  }
  if (const auto* integer = node.as_integer()) {
    return std::to_string(integer->get());
  }
  if (const auto* number = node.as_floating_point()) {
    return fmt::format("{}", number->get());
  }
  if (const auto* truth = node.as_boolean()) {
    return truth->get() ? "true" : "false";
  }
  return std::nullopt;
}

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

/// Appends the file to `content`; 0 or the errno value. C streams, because C++'s do not tell why they failed.
int read_file(const std::string& path, std::string& content) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "re"), std::fclose);
  if (file == nullptr) {
    return errno;
  }
  std::array<char, 4096> block;
  for (std::size_t count = 1; count > 0;) {
    count = std::fread(block.data(), 1, block.size(), file.get());
    content.append(block.data(), count);
  }
  return std::ferror(file.get()) != 0 ? errno : 0;
}

bool is_program_section(std::string_view name) {
  return std::ranges::find(kProgramSections, name) != kProgramSections.end();
}

Result<void> apply_table(const TomlFile& file, const toml::table& table, const std::string& prefix, bool top_level) {
  for (const auto& [key, node] : table) {
    if (top_level && is_program_section(key.str())) {
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

void throw_toml_fault(const char* expectation) { throw TomlLibraryFault(expectation); }

Result<void> apply_toml_file(Settings& settings, const std::string& path, bool required, std::string_view section) {
  std::string content;
  const int error_number = read_file(path, content);
  if (!required && (error_number == ENOENT || error_number == ENOTDIR)) {
    return {};
  }
  if (error_number != 0) {
    return fail(path, "", errno_text(error_number), "naming a configuration file that can be read", ExitCode::NoInput);
  }
  const TomlFile file{settings, path};
  try {
    const toml::table root = toml::parse(content, path);
    return section.empty() ? apply_table(file, root, "", true) : apply_section(file, root, section);
  } catch (const toml::parse_error& error) {
    return fail(fmt::format("{}:{}", path, error.source().begin.line), "", std::string(error.description()),
                "correcting the TOML there", ExitCode::Configuration);
  } catch (const TomlLibraryFault& fault) {
    return fail(path, "", fmt::format("is damaged beyond what the TOML parser expects ({})", fault.what()),
                "writing it anew", ExitCode::Configuration);
  }
}

}  // namespace rollcall::settings

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "runtime/settings/toml_library.h"

namespace rollcall::settings {

/// The tables of toml_file.cpp and site_profile.cpp: for the .cpp files of this layer only, since toml++ is a large
/// header.

/// Appends the file to `content`; 0 or the errno value.
[[nodiscard]] int read_file(const std::string& path, std::string& content);

/// A TOML text; the error (Configuration) names file and line.
[[nodiscard]] Result<toml::table> parse_toml(const std::string& content, const std::string& path);

/// A TOML file; nothing where it is missing and not `required`. Errors: NoInput where it cannot be read, otherwise
/// Configuration.
[[nodiscard]] Result<std::optional<toml::table>> read_toml(const std::string& path, bool required);

/// What apply_toml_file does with a file that is there and read already.
[[nodiscard]] Result<void> apply_toml(Settings& settings, const toml::table& root, const std::string& path,
                                      std::string_view section);

/// "FILE:LINE: KEY", the `setting` of errors.
[[nodiscard]] std::string place(const std::string& path, const toml::node& node, const std::string& key);

/// A value that stands for itself as text: string, integer, number or boolean; nothing for others.
[[nodiscard]] std::optional<std::string> scalar_text(const toml::node& node);

}  // namespace rollcall::settings

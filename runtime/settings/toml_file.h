#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/trusted_file.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// Throws what parse_toml() catches. It is not inline, since toml++ also asserts in functions that are noexcept.
[[noreturn]] void throw_toml_fault(const char* expectation);

}  // namespace rollcall::settings

// With NDEBUG, toml++ 3.3 makes assumptions for the optimiser of its assertions, so a damaged file means undefined
// behaviour. Without NDEBUG they abort. Neither may happen to slurmstepd, so they throw here.
#ifdef NDEBUG
#define ROLLCALL_NDEBUG_WAS_SET
#undef NDEBUG
#endif
// Nested tables are read by recursive functions.
#define TOML_MAX_NESTED_VALUES 32
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? void(0) : ::rollcall::settings::throw_toml_fault(#expr))

#include <toml++/toml.h>

#ifdef ROLLCALL_NDEBUG_WAS_SET
#define NDEBUG
#undef ROLLCALL_NDEBUG_WAS_SET
#endif

namespace rollcall::settings {

// This header is only for toml_file.cpp and site_profile.cpp, since toml++ is large. Other code calls
// apply_toml_file().

/// Most bytes of a configuration file.
inline constexpr std::size_t kLongestFile = std::size_t{64} << 10;

/// Parses a TOML text. Errors (Configuration) name file and line. Text in triple quotes, keys of many parts and
/// non-ASCII characters outside quotes and comments are refused as well.
[[nodiscard]] Result<toml::table> parse_toml(const std::string& content, const std::string& path);

/// Reads and parses a TOML file. Returns nothing if it is missing and not `required`. Errors: NoInput if it cannot be
/// read; Configuration for other reasons, such as that others than `owners` could have changed it.
[[nodiscard]] Result<std::optional<toml::table>> read_toml(const std::string& path, bool required,
                                                           const TrustedOwners& owners);

/// Applies a file that has been read, as apply_toml_file() does.
[[nodiscard]] Result<void> apply_toml(Settings& settings, const toml::table& root, const std::string& path,
                                      std::string_view section);

/// Returns "FILE:LINE: KEY", the `setting` of errors.
[[nodiscard]] std::string place(const std::string& path, const toml::node& node, const std::string& key);

}  // namespace rollcall::settings

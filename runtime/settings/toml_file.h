#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/believed_file.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// Throws what parse_toml() catches. Out of line, since toml++ also asserts in functions that are noexcept.
[[noreturn]] void throw_toml_fault(const char* expectation);

}  // namespace rollcall::settings

// With NDEBUG toml++ 3.3 turns its assertions into promises to the optimiser, so that a damaged file means undefined
// behaviour; without it, into abort(). Neither may happen to slurmstepd: they throw instead.
#ifdef NDEBUG
#define ROLLCALL_NDEBUG_WAS_SET
#undef NDEBUG
#endif
// Tables within tables are walked by functions that call themselves.
#define TOML_MAX_NESTED_VALUES 32
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? void(0) : ::rollcall::settings::throw_toml_fault(#expr))

#include <toml++/toml.h>

#ifdef ROLLCALL_NDEBUG_WAS_SET
#define NDEBUG
#undef ROLLCALL_NDEBUG_WAS_SET
#endif

namespace rollcall::settings {

// For toml_file.cpp and site_profile.cpp only, since toml++ is a large header; others call apply_toml_file().

/// No configuration file is longer.
inline constexpr std::size_t kLongestFile = std::size_t{64} << 10;

/// A TOML text; the error (Configuration) names file and line. What is nested deeper than anything of ours is refused,
/// and text in triple quotes, which would make it hard to tell.
[[nodiscard]] Result<toml::table> parse_toml(const std::string& content, const std::string& path);

/// A TOML file; nothing where it is missing and not `required`. Errors: NoInput where the system refuses it, otherwise
/// Configuration, also where others than `owners` could have changed it.
[[nodiscard]] Result<std::optional<toml::table>> read_toml(const std::string& path, bool required,
                                                           const Believed& owners);

/// What apply_toml_file does with a file that is there and read already.
[[nodiscard]] Result<void> apply_toml(Settings& settings, const toml::table& root, const std::string& path,
                                      std::string_view section);

/// "FILE:LINE: KEY", the `setting` of errors.
[[nodiscard]] std::string place(const std::string& path, const toml::node& node, const std::string& key);

}  // namespace rollcall::settings

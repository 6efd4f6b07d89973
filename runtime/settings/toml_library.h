#pragma once

#include <stdexcept>

namespace rollcall::settings {

/// toml++ found its own parser in a state that it takes for impossible; damaged files lead there ("[~").
struct TomlLibraryFault : std::logic_error {
  using std::logic_error::logic_error;
};

/// Throws TomlLibraryFault. Out of line, since toml++ also asserts in functions that are noexcept.
[[noreturn]] void throw_toml_fault(const char* expectation);

}  // namespace rollcall::settings

// With NDEBUG toml++ 3.3 turns its assertions into promises to the optimiser, so that a damaged file means undefined
// behaviour; without it, into abort(). Neither may happen to slurmstepd: they throw instead.
#ifdef NDEBUG
#define ROLLCALL_NDEBUG_WAS_SET
#undef NDEBUG
#endif
#define TOML_ASSERT(expr) (static_cast<bool>(expr) ? void(0) : ::rollcall::settings::throw_toml_fault(#expr))

#include <toml++/toml.h>

#ifdef ROLLCALL_NDEBUG_WAS_SET
#define NDEBUG
#undef ROLLCALL_NDEBUG_WAS_SET
#endif

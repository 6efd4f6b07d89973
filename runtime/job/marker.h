#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/job/job_facts.h"

namespace rollcall::job {

/// Which variables a rollcall set, each with a hash of the value it gave: the content of ROLLCALL_SET. It travels with
/// the environment (from a batch step into its steps, say) and tells rollcall's values from the user's.
using Marker = std::map<std::string, std::uint32_t, std::less<>>;

/// The content of ROLLCALL_STEP: "JOB.STEP"; "run.HASH" under an mpirun; "job.JOB" of a single process in a job;
/// "none" otherwise.
[[nodiscard]] std::string step_name(const JobFacts& facts);

/// FNV-1a, 32 bit (Fowler, Noll, Vo; RFC 9923).
[[nodiscard]] std::uint32_t fnv1a(std::string_view text);

/// "NAME:8 hex digits,..." in the order of the names. Parsing passes over what is not of that form: a marker that
/// somebody damaged makes values count as the user's, which is the safe side. Pure.
[[nodiscard]] std::string to_text(const Marker& marker);
[[nodiscard]] Marker parse_marker(std::string_view text);
/// The marker in ROLLCALL_SET; empty where it is unset.
[[nodiscard]] Marker marker_of(const Environment& environment);

/// Whether `value` is what a rollcall gave to `name`, unchanged since.
[[nodiscard]] bool is_marked(const Marker& marker, std::string_view name, std::string_view value);

/// The value of `name` where the user set it: not empty, and not a marked one.
[[nodiscard]] std::optional<std::string> set_by_user(const Environment& environment, std::string_view name);

/// The names of all that a rollcall set in `environment`, unchanged since, with those that tell so (ROLLCALL_SET,
/// ROLLCALL_STEP). Empty where there is no marker. Pure.
[[nodiscard]] std::vector<std::string> marked_values(const Environment& environment);

}  // namespace rollcall::job

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

/// The variables that rollcall set, with hashes of their values: the content of ROLLCALL_SET. Steps inherit it with the
/// environment, for example from a batch script, and it distinguishes rollcall's values from the user's.
using Marker = std::map<std::string, std::uint32_t, std::less<>>;

/// Returns the content of ROLLCALL_STEP: "JOB.STEP"; "run.HASH" under mpirun; "job.JOB" for a single process in a job;
/// otherwise "none".
[[nodiscard]] std::string step_name(const JobFacts& facts);

/// Computes the 32-bit FNV-1a hash (Fowler, Noll, Vo; RFC 9923).
[[nodiscard]] std::uint32_t fnv1a(std::string_view text);

/// Formats a marker as "NAME:8 hex digits,...", sorted by name. Pure.
[[nodiscard]] std::string to_text(const Marker& marker);
/// Parses a marker and skips invalid entries, whose variables then safely count as the user's. Pure.
[[nodiscard]] Marker parse_marker(std::string_view text);
/// Returns the marker in ROLLCALL_SET; empty where it is unset.
[[nodiscard]] Marker marker_of(const Environment& environment);

/// Returns whether rollcall set `name` to `value`.
[[nodiscard]] bool is_marked(const Marker& marker, std::string_view name, std::string_view value);

/// Returns the value of `name` where the user set it: it is not empty and not marked.
[[nodiscard]] std::optional<std::string> set_by_user(const Environment& environment, std::string_view name);

/// Returns the names of the variables in `environment` with values that rollcall set, including ROLLCALL_SET and
/// ROLLCALL_STEP. Empty where there is no marker. Pure.
[[nodiscard]] std::vector<std::string> marked_values(const Environment& environment);

}  // namespace rollcall::job

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::storage {

/// Days until a file is deleted on a site that deletes what was neither changed nor read for `purge_days`. Negative:
/// overdue. All times in seconds since the epoch. Pure.
[[nodiscard]] double days_until_purge(double now, double changed, double read, std::uint32_t purge_days);

/// How far a look may go: folders of users hold millions of files, and a look must not hold anybody up.
struct PurgeLimits {
  std::size_t entries = 20'000;
  std::chrono::milliseconds time{500};
};

/// What the start of a step can afford, on the head node alone.
inline constexpr PurgeLimits kAtLaunch{1'000, std::chrono::milliseconds(50)};

/// What a look at a folder found.
struct PurgeAge {
  std::optional<double> days_left;  ///< of the file that would be deleted first; nothing: no file was seen
  std::string oldest;               ///< its path
  std::size_t files = 0;            ///< how many were seen
  bool complete = true;             ///< false: a limit ended the look, or a folder could not be read
};

/// Looks at the regular files below `folder`, breadth first, within its own file system, following no link: when would
/// the oldest be deleted? Reads times only: no file is opened, none is touched, and the access times of folders stay
/// where the kernel permits it (O_NOATIME). Error (NoInput, setting scratch.folder): the folder cannot be opened.
[[nodiscard]] Result<PurgeAge> purge_age(const std::string& folder, std::uint32_t purge_days, PurgeLimits limits);

/// The settings scratch.* applied: nothing where the site deletes nothing (scratch.purge-days is 0), where the folder
/// cannot be named (no SCRATCH) or read, or where the oldest file has more than scratch.warn-days; otherwise a warning
/// that names it, without the "rollcall:" prefix. What a step and `rollcall doctor` say.
[[nodiscard]] std::optional<std::string> purge_warning(const settings::LaunchSettings& settings,
                                                       const Environment& environment, PurgeLimits limits = {});

}  // namespace rollcall::storage

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

/// Returns the days until a file is deleted on a site that deletes files which were neither changed nor read for
/// `purge_days`. Negative: overdue. The times are in seconds since the epoch. Pure.
[[nodiscard]] double days_until_purge(double now, double changed, double read, std::uint32_t purge_days);

/// Limits of a scan, because users' folders may have millions of files.
struct PurgeLimits {
  std::size_t entries = 20'000;
  std::chrono::milliseconds time{500};
};

/// The limits at the start of a step, on the head node only.
inline constexpr PurgeLimits kAtLaunch{1'000, std::chrono::milliseconds(50)};

/// The result of a scan.
struct PurgeAge {
  std::optional<double> days_left;  ///< until the first file is deleted; unset: no file was found
  std::string oldest;               ///< the path of that file
  std::size_t files = 0;            ///< number of scanned files
  bool complete = true;             ///< false: a limit ended the scan, or a folder could not be read
};

/// Finds the regular file below `folder` that would be deleted first: breadth first, within one file system, without
/// following links. It reads only times and opens no file. Access times of folders stay unchanged where the kernel
/// permits that (O_NOATIME). Error (NoInput, setting scratch.folder): the folder cannot be opened.
[[nodiscard]] Result<PurgeAge> purge_age(const std::string& folder, std::uint32_t purge_days, PurgeLimits limits);

/// Returns the warning about the oldest file by the settings scratch.*, for steps and `rollcall doctor`, without the
/// prefix. Nothing where the site does not delete files (scratch.purge-days is 0), the folder is unknown (no SCRATCH)
/// or cannot be read, or the oldest file has more days left than scratch.warn-days.
[[nodiscard]] std::optional<std::string> purge_warning(const settings::LaunchSettings& settings,
                                                       const Environment& environment, PurgeLimits limits = {});

}  // namespace rollcall::storage

#pragma once

#include <string>

#include "runtime/base/result.h"

namespace rollcall::report {

/// Puts `text` into the file `path`, which is whole whenever somebody looks: written beside it, under a name that
/// nobody can guess, and renamed. Errors: CannotCreate, InputOutput.
[[nodiscard]] Result<void> write_whole(const std::string& path, const std::string& text);

/// What a training does at its end: reads the record of `folder` for at most `most_seconds`, writes report.html into
/// it, and returns the summary as lines for people, or why there is none. Nothing is thrown.
[[nodiscard]] std::string report_of_run(const std::string& folder, double most_seconds) noexcept;

}  // namespace rollcall::report

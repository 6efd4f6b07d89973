#include "trainer/report/write_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>

#include "runtime/base/own_file.h"
#include "trainer/report/page.h"
#include "trainer/report/summary.h"

namespace rollcall::report {
namespace {

Error not_written(const std::string& path, const std::string& reason, ExitCode code) {
  return fail("report", path, "cannot be written: " + reason, "--output with a place that can be written to", code);
}

std::string made_report(const std::string& folder, double most_seconds) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(most_seconds));
  const Result<Run> run = read_run(folder, [end] { return Clock::now() < end; });
  if (!run) {
    return "no report: " + run.error().message() + "\n";
  }
  const std::string path = folder + "/report.html";
  const Result<void> written = write_whole(path, page_html({*run}));
  return summary_text(*run) +
         (written ? fmt::format("{:<12}{}\n", "report", path) : "no report: " + written.error().message() + "\n");
}

}  // namespace

Result<void> write_whole(const std::string& path, const std::string& text) {
  const OpenedOutput beside = create_beside(path, O_WRONLY);
  std::FILE* const file = beside.descriptor < 0 ? nullptr : ::fdopen(beside.descriptor, "w");
  if (file == nullptr) {
    return not_written(path, beside.reason, ExitCode::CannotCreate);
  }
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  int error_number = written ? 0 : errno;
  if (std::fclose(file) != 0 && error_number == 0) {
    error_number = errno;
  }
  if (error_number == 0 && std::rename(beside.path.c_str(), path.c_str()) == 0) {
    return {};
  }
  error_number = error_number == 0 ? errno : error_number;
  ::unlink(beside.path.c_str());
  return not_written(path, errno_text(error_number), ExitCode::InputOutput);
}

std::string report_of_run(const std::string& folder, double most_seconds) noexcept {
  try {
    return made_report(folder, most_seconds);
  } catch (const std::exception& error) {
    try {
      return fmt::format("no report: {}; rollcall-report {} may say more\n", error.what(), folder);
    } catch (const std::exception&) {
      return {};
    }
  }
}

}  // namespace rollcall::report

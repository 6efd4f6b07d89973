#pragma once

#include <string>
#include <vector>

namespace rollcall::metrics {

/// A moment of this process: seconds of CLOCK_BOOTTIME, and CPU seconds that it has used so far.
struct Moment {
  double wall = 0;
  double cpu = 0;
};

/// Now. Async-signal-safe, and safe before any constructor ran.
[[nodiscard]] Moment now() noexcept;

/// What each stage of a program's start cost, from the fork of its process on: stages follow each other, each ends
/// where it is marked. Not thread-safe.
class StartupTrace {
 public:
  /// `linked`: when the dynamic linker was done and no library's constructor had run yet (.preinit_array). The first
  /// two stages, up to there and up to now, are marked at once. The start is that of /proc/self/stat, in ticks of 10
  /// ms; its CPU time counts from the fork as well.
  explicit StartupTrace(Moment linked);

  /// The stage `name` ends now.
  void mark(std::string name);

  /// For people: a line a stage with milliseconds of wall and CPU time, and the sum.
  [[nodiscard]] std::string table() const;
  /// One line: {"event": "startup", "stages": [{"stage", "wall_ms", "cpu_ms"}, ...], "total_ms"}.
  [[nodiscard]] std::string json() const;

 private:
  struct Stage {
    std::string name;
    Moment end;
  };

  Moment start_;
  std::vector<Stage> stages_;
};

}  // namespace rollcall::metrics

#pragma once

#include <string>
#include <vector>

namespace rollcall::metrics {

/// A point in time.
struct Moment {
  double wall = 0;  ///< seconds of CLOCK_BOOTTIME
  double cpu = 0;   ///< CPU seconds that this process has used so far
};

/// Returns the current time. Async-signal-safe, and safe before any constructor has run.
[[nodiscard]] Moment now() noexcept;

/// Measures the stages of a program's start from the fork of its process on. A stage begins where the previous one
/// ends. Not thread-safe.
class StartupTrace {
 public:
  /// `linked` is the time at which the dynamic linker was done and no constructor had run yet (.preinit_array). It ends
  /// the first stage, and the second one ends now. The start is that of /proc/self/stat, in ticks of 10 ms; CPU time
  /// also counts from the fork.
  explicit StartupTrace(Moment linked);

  /// Ends the stage `name` now.
  void mark(std::string name);

  /// Returns a table with milliseconds of wall and CPU time per stage, and the sum.
  [[nodiscard]] std::string table() const;
  /// Returns one line: {"event": "startup", "stages": [{"stage", "wall_ms", "cpu_ms"}, ...], "total_ms"}.
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

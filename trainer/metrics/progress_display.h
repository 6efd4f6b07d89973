#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/metrics/gpu_meter.h"

namespace rollcall::metrics {

/// The progress of a training.
struct ProgressState {
  std::int64_t epoch = 0;  ///< from 0; shown from 1
  std::int64_t epochs = 0;
  std::int64_t step = 0;  ///< steps done in this epoch
  std::int64_t steps_per_epoch = 0;
  std::optional<std::int64_t> steps_to_limit;  ///< steps until --max-steps; unset: no limit
  double loss = 0;                             ///< mean of this step
  double top1 = 0;                             ///< accuracy of the epoch so far, in [0, 1]
  double learning_rate = 0;
  std::optional<double> images_per_second;
  GpuSummary gpus;
  double data_wait = 0;                          ///< fraction of the time waiting for data; shown from 1 % on
  std::optional<double> remaining_seconds = {};  ///< until the end of the training; unset: unknown
};

/// Returns the steps until the end of the training, if all epochs have as many as this one, or until the limit.
[[nodiscard]] std::int64_t steps_left(const ProgressState& state);

/// Bar: one line that is redrawn; Lines: a new line every so many steps; Auto: a bar on a terminal, else lines.
enum class ProgressStyle { Auto, Bar, Lines, None };

/// Formats one line: "epoch 2/120  step 30/85  loss 2.3026 (step)  top-1 12.50 % (epoch)  lr 0.0012  512 img/s  GPU 97
/// % 71.2/79.6 GiB  684 W  data wait 3 % ETA 1 h 02 min".
[[nodiscard]] std::string progress_text(const ProgressState& state);

/// Shows the progress of a training on a file descriptor, which it does not own. Failed writes are ignored, so that a
/// closed terminal does not end a training. One thread.
class ProgressDisplay {
 public:
  /// `every_steps` is the distance of lines in style Lines; the last step of an epoch or of the run is always shown.
  /// `clock` returns the time that ends each line of that style; unset: no time.
  ProgressDisplay(int descriptor, ProgressStyle style, std::int64_t every_steps,
                  std::function<std::string()> clock = {});
  /// Ends a bar's line.
  ~ProgressDisplay() { finish(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  /// Shows a step that ended at `now` (seconds of any monotonic clock). A bar is redrawn at most 10 times a second.
  void step_done(const ProgressState& state, double now);
  /// Prints a line in every style except None. The next step draws a bar again below it.
  void message(std::string_view text);
  /// Ends a bar's line, so that further output starts at the left edge.
  void finish();

  [[nodiscard]] ProgressStyle style() const { return style_; }

 private:
  void draw_bar(const ProgressState& state);
  void write_line(std::string_view text) const;
  void write(std::string_view text) const;

  int descriptor_;
  ProgressStyle style_;
  std::int64_t every_steps_;
  std::function<std::string()> clock_;
  std::optional<double> drawn_at_;
  bool bar_shown_ = false;
};

/// Shows the progress of other long work on a file descriptor, which it does not own: one line that is redrawn on a
/// terminal, else a line every ten seconds. One thread.
class WorkProgress {
 public:
  using Style = ProgressStyle;
  /// Returns the style for "auto", "bar", "lines" or "none", the values of --progress.
  [[nodiscard]] static Style style_of(std::string_view name);

  /// `unit` is the unit of the counted items, as in "120 img/s".
  WorkProgress(int descriptor, Style style, std::string unit);
  /// Begins work on `total` items. `what` is its name: "packing train.h5". `done_before` items were done by an earlier
  /// run and do not count for the speed.
  void begin(std::string what, std::uint64_t total, std::uint64_t done_before = 0);
  /// Updates the total numbers of items and bytes that are done.
  void step(std::uint64_t done, std::uint64_t bytes);
  /// Prints a line.
  void message(std::string_view text);
  /// Ends a redrawn line.
  void end();

 private:
  using Clock = std::chrono::steady_clock;
  void write(std::string_view text) const;
  [[nodiscard]] std::string text(std::uint64_t done, std::uint64_t bytes, double seconds) const;

  int descriptor_;
  Style style_;
  std::string unit_;
  std::string what_;
  std::uint64_t total_ = 0;
  std::uint64_t done_before_ = 0;
  Clock::time_point begun_;
  Clock::time_point shown_;
  bool line_open_ = false;
};

}  // namespace rollcall::metrics

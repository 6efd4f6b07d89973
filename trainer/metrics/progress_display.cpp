#include "trainer/metrics/progress_display.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/file.h"
#include "trainer/metrics/human_numbers.h"

namespace rollcall::metrics {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr double kRedrawSeconds = 0.1;
constexpr Seconds kLine{10};  // between lines of WorkProgress
constexpr std::string_view kClearLine = "\r\x1b[K";

std::size_t terminal_width(int descriptor) {
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

std::string bar(std::int64_t done, std::int64_t all, std::size_t cells) {
  const double fraction = all > 0 ? static_cast<double>(done) / static_cast<double>(all) : 0;
  const auto filled = static_cast<std::size_t>(std::clamp(fraction, 0.0, 1.0) * static_cast<double>(cells));
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(cells - filled, '.'));
}

ProgressStyle chosen(ProgressStyle style, int descriptor) {
  if (style != ProgressStyle::Auto) {
    return style;
  }
  return ::isatty(descriptor) == 1 ? ProgressStyle::Bar : ProgressStyle::Lines;
}

}  // namespace

std::int64_t steps_left(const ProgressState& state) {
  const std::int64_t of_epochs =
      state.steps_per_epoch - state.step + (state.epochs - state.epoch - 1) * state.steps_per_epoch;
  return std::min(of_epochs, state.steps_to_limit.value_or(of_epochs));
}

std::string progress_text(const ProgressState& state) {
  std::string text =
      fmt::format("epoch {}/{}  step {}/{}  loss {:.4f} (step)  top-1 {:.2f} % (epoch)  lr {:.3g}", state.epoch + 1,
                  state.epochs, state.step, state.steps_per_epoch, state.loss, 100 * state.top1, state.learning_rate);
  if (state.images_per_second) {
    text += fmt::format("  {:.{}f} img/s", *state.images_per_second, *state.images_per_second < 100 ? 1 : 0);
  }
  if (const std::string gpus = state.gpus.text(); !gpus.empty()) {
    text += "  " + gpus;
  }
  if (state.data_wait >= 0.01) {
    text += fmt::format("  data wait {:.0f} %", 100 * state.data_wait);
  }
  if (state.remaining_seconds) {
    text += "  ETA " + human_duration(*state.remaining_seconds);
  }
  return text;
}

ProgressDisplay::ProgressDisplay(int descriptor, ProgressStyle style, std::int64_t every_steps,
                                 std::function<std::string()> clock)
    : descriptor_(descriptor),
      style_(chosen(style, descriptor)),
      every_steps_(std::max<std::int64_t>(every_steps, 1)),
      clock_(std::move(clock)) {}

void ProgressDisplay::step_done(const ProgressState& state, double now) {
  const bool last = state.step == state.steps_per_epoch || steps_left(state) == 0;
  if (style_ == ProgressStyle::Lines && (last || state.step % every_steps_ == 0)) {
    write_line(progress_text(state));
  }
  if (style_ == ProgressStyle::Bar && (last || !drawn_at_ || now - *drawn_at_ >= kRedrawSeconds)) {
    drawn_at_ = now;
    draw_bar(state);
  }
}

void ProgressDisplay::draw_bar(const ProgressState& state) {
  constexpr std::size_t kLeastCells = 8;
  constexpr std::size_t kMostCells = 30;
  const std::size_t width = terminal_width(descriptor_) - 1;  // the last column would wrap on some terminals
  std::string text = progress_text(state);
  const std::size_t room = width > text.size() + 3 ? width - text.size() - 3 : 0;
  if (room >= kLeastCells) {
    text = bar(state.step, state.steps_per_epoch, std::min(room, kMostCells)) + " " + text;
  }
  write(std::string(kClearLine) + text.substr(0, width));
  bar_shown_ = true;
}

void ProgressDisplay::message(std::string_view text) {
  if (style_ == ProgressStyle::None) {
    return;
  }
  write_line(fmt::format("{}{}", bar_shown_ ? kClearLine : std::string_view(), text));
  bar_shown_ = false;
  drawn_at_.reset();
}

void ProgressDisplay::finish() {
  if (bar_shown_) {
    write("\n");
    bar_shown_ = false;
  }
}

/// Puts the time last, because programs match the beginning of a line.
void ProgressDisplay::write_line(std::string_view text) const {
  const bool with_time = style_ == ProgressStyle::Lines && clock_;
  write(with_time ? fmt::format("{}  [{}]\n", text, clock_()) : fmt::format("{}\n", text));
}

void ProgressDisplay::write(std::string_view text) const { (void)write_all(descriptor_, text); }

ProgressStyle WorkProgress::style_of(std::string_view name) {
  if (name == "bar") {
    return Style::Bar;
  }
  if (name == "lines") {
    return Style::Lines;
  }
  return name == "none" ? Style::None : Style::Auto;
}

WorkProgress::WorkProgress(int descriptor, Style style, std::string unit)
    : descriptor_(descriptor), style_(chosen(style, descriptor)), unit_(std::move(unit)) {}

void WorkProgress::begin(std::string what, std::uint64_t total, std::uint64_t done_before) {
  end();
  what_ = std::move(what);
  total_ = total;
  done_before_ = done_before;
  begun_ = shown_ = Clock::now();
}

std::string WorkProgress::text(std::uint64_t done, std::uint64_t bytes, double seconds) const {
  std::string line = fmt::format("{}  {}/{}  {}", what_, done, total_, human_bytes(bytes));
  const double rate = seconds > 0 ? static_cast<double>(done - done_before_) / seconds : 0;
  if (rate > 0) {
    line +=
        fmt::format("  {:.0f} {}/s  ETA {}", rate, unit_, human_duration(static_cast<double>(total_ - done) / rate));
  }
  return line;
}

void WorkProgress::step(std::uint64_t done, std::uint64_t bytes) {
  if (style_ == Style::None) {
    return;
  }
  const auto now = Clock::now();
  const bool bar = style_ == Style::Bar;
  if (now - shown_ < (bar ? Seconds(kRedrawSeconds) : kLine) && !(bar && done == total_)) {
    return;
  }
  shown_ = now;
  const std::string line = text(done, bytes, Seconds(now - begun_).count());
  if (!bar) {
    write(line + "\n");
    return;
  }
  write(std::string(kClearLine) + line.substr(0, terminal_width(descriptor_) - 1));
  line_open_ = true;
}

void WorkProgress::message(std::string_view line) {
  end();
  if (style_ != Style::None) {
    write(fmt::format("{}\n", line));
  }
}

void WorkProgress::end() {
  if (line_open_) {
    write("\n");
    line_open_ = false;
  }
}

void WorkProgress::write(std::string_view text) const { (void)write_all(descriptor_, text); }

}  // namespace rollcall::metrics

#include "trainer/metrics/work_progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "trainer/metrics/duration.h"
#include "trainer/metrics/human_bytes.h"

namespace rollcall::metrics {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Seconds kRedraw{0.1};
constexpr Seconds kLine{10};

WorkProgress::Style chosen(WorkProgress::Style style, int descriptor) {
  if (style != WorkProgress::Style::Auto) {
    return style;
  }
  return ::isatty(descriptor) == 1 ? WorkProgress::Style::Bar : WorkProgress::Style::Lines;
}

std::size_t terminal_width(int descriptor) {
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

}  // namespace

WorkProgress::Style WorkProgress::style_of(std::string_view name) {
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
  if (now - shown_ < (bar ? kRedraw : kLine) && !(bar && done == total_)) {
    return;
  }
  shown_ = now;
  const std::string line = text(done, bytes, Seconds(now - begun_).count());
  if (!bar) {
    write(line + "\n");
    return;
  }
  write("\r\x1b[K" + line.substr(0, terminal_width(descriptor_) - 1));
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

void WorkProgress::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written <= 0 && !(written < 0 && errno == EINTR)) {
      return;  // a closed terminal does not end the work
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

}  // namespace rollcall::metrics

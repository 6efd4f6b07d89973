#include "trainer/pack/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "trainer/metrics/duration.h"

namespace rollcall::pack {
namespace {

using Seconds = std::chrono::duration<double>;
constexpr Seconds kRedraw{0.1};
constexpr Seconds kLine{10};

Progress::Style chosen(Progress::Style style, int descriptor) {
  if (style != Progress::Style::Auto) {
    return style;
  }
  return ::isatty(descriptor) == 1 ? Progress::Style::Bar : Progress::Style::Lines;
}

std::size_t terminal_width(int descriptor) {
  winsize size{};
  const bool known = ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col : 80;
}

}  // namespace

std::string human_bytes(std::uint64_t bytes) {
  constexpr std::array units{"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  auto value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1023.95 && unit + 1 < units.size(); ++unit) {
    value /= 1024;
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

Progress::Progress(int descriptor, Style style) : descriptor_(descriptor), style_(chosen(style, descriptor)) {}

void Progress::begin(std::string what, std::uint64_t total, std::uint64_t done_before) {
  end();
  what_ = std::move(what);
  total_ = total;
  done_before_ = done_before;
  begun_ = shown_ = Clock::now();
}

std::string Progress::text(std::uint64_t done, std::uint64_t bytes, double seconds) const {
  std::string line = fmt::format("{}  {}/{}  {}", what_, done, total_, human_bytes(bytes));
  const double rate = seconds > 0 ? static_cast<double>(done - done_before_) / seconds : 0;
  if (rate > 0) {
    line +=
        fmt::format("  {:.0f} img/s  ETA {}", rate, metrics::human_duration(static_cast<double>(total_ - done) / rate));
  }
  return line;
}

void Progress::step(std::uint64_t done, std::uint64_t bytes) {
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

void Progress::message(std::string_view line) {
  end();
  if (style_ != Style::None) {
    write(fmt::format("{}\n", line));
  }
}

void Progress::end() {
  if (line_open_) {
    write("\n");
    line_open_ = false;
  }
}

void Progress::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor_, text.data(), text.size());
    if (written <= 0 && !(written < 0 && errno == EINTR)) {
      return;  // a closed terminal does not end the work
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
}

}  // namespace rollcall::pack

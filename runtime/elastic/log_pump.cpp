#include "runtime/elastic/log_pump.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <string_view>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/base/thread_without_signals.h"
#include "runtime/elastic/log_folders.h"
#include "runtime/elastic/unblocked_output.h"

namespace rollcall::elastic {
namespace {

/// Longer lines are shown in pieces of this size.
constexpr std::size_t kLongestLine = 1 << 16;

}  // namespace

/// A terminal for lines. While it does not respond, lines are omitted and counted.
struct LogPump::Terminal {
  explicit Terminal(int shown_at) : output(shown_at), is_error(shown_at == STDERR_FILENO) {}

  /// Shows whole lines, which `file` contains as well.
  void show(std::string_view lines, const std::string& file, const LogPump& pump) {
    if (stands_still) {
      const std::string note = fmt::format("rollcall: run: {} omitted here; see the log files\n",
                                           counted(left_out, "line was", "lines were"));
      stands_still = !output.write(note, std::chrono::milliseconds(0)).empty();
      left_out = stands_still ? left_out : 0;
    }
    if (!stands_still && !lines.empty()) {
      lines = output.write(lines, pump.patience_);
      stands_still = !lines.empty();
      if (stands_still) {
        pump.warn_of(fmt::format("--tee: {}: accepted nothing for {:g} s; the omitted lines are only in {}",
                                 is_error ? "standard error" : "standard output",
                                 std::chrono::duration<double>(pump.patience_).count(), file));
      }
    }
    left_out += stands_still ? static_cast<std::size_t>(std::ranges::count(lines, '\n')) : 0;
  }

  UnblockedOutput output;
  bool is_error;
  bool stands_still = false;
  std::size_t left_out = 0;  ///< lines omitted since it does not respond
};

struct LogPump::Stream {
  Stream(PumpedStream wanted, int reading_end) : to(std::move(wanted)), pipe(reading_end) {}
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    for (const int descriptor : {pipe, file, filtered}) {
      if (descriptor >= 0) {
        close(descriptor);
      }
    }
  }

  static void to_file(int& descriptor, const std::string& path, std::string_view bytes, const LogPump& pump) {
    if (descriptor >= 0 && !write_all(descriptor, bytes).empty()) {
      const int error = errno;
      close(std::exchange(descriptor, -1));
      pump.warn_of(fmt::format("--log-dir: {}: can no longer be written: {}", path, errno_text(error)));
    }
  }

  void take(std::string_view bytes, const LogPump& pump) {
    to_file(file, to.file, bytes, pump);
    rest += bytes;
    std::size_t begin = 0;
    for (Line line = line_at(begin); line.with_end > 0; line = line_at(begin)) {
      add(std::string_view(rest).substr(begin, line.length), pump);
      begin += line.with_end;
    }
    rest.erase(0, begin);
    show(pump);
  }

  struct Line {
    std::size_t length = 0;
    std::size_t with_end = 0;  ///< incomplete
  };

  [[nodiscard]] Line line_at(std::size_t begin) const {
    const std::size_t end = std::min(rest.find_first_of("\r\n", begin), rest.size());
    if (end - begin > kLongestLine) {
      return {kLongestLine, kLongestLine};
    }
    if (end == rest.size() || (rest[end] == '\r' && end + 1 == rest.size())) {
      return {};  // a line feed may follow
    }
    return {end - begin, end - begin + (rest.compare(end, 2, "\r\n") == 0 ? 2 : 1)};
  }

  /// Collects lines and shows them together, so that workers with short lines do not wait for a system call per line.
  void add(std::string_view line, const LogPump& pump) {
    const std::string whole = fmt::format("{}{}\n", to.prefix, line);
    if (lines.size() + whole.size() > PIPE_BUF) {
      show(pump);
    }
    lines += whole;
    const bool wanted = std::ranges::any_of(
        to.words, [&](const std::string& word) { return line.find(word) != std::string_view::npos; });
    filtered_lines += wanted ? whole : "";
  }

  void show(const LogPump& pump) {
    if (terminal != nullptr) {
      terminal->show(lines, to.file, pump);
    }
    lines.clear();
    to_file(filtered, to.filtered, filtered_lines, pump);
    filtered_lines.clear();
  }

  /// Reads from the pipe; returns false where nothing is available or the other end is closed.
  bool read_some(const LogPump& pump) {
    std::array<char, 16384> piece{};
    const ssize_t count = ::read(pipe, piece.data(), piece.size());
    if (count > 0) {
      taken += static_cast<std::size_t>(count);
      take({piece.data(), static_cast<std::size_t>(count)}, pump);
      return true;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return false;
    }
    close_pipe(pump);
    return false;
  }

  /// Reads what is in the pipe now, whatever is written to it meanwhile.
  void read_rest(const LogPump& pump) {
    int left = 0;
    ioctl(pipe, FIONREAD, &left);
    for (std::size_t before = taken; pipe >= 0 && taken - before < static_cast<std::size_t>(left);) {
      if (!read_some(pump)) {
        break;
      }
    }
    close_pipe(pump);
  }

  void close_pipe(const LogPump& pump) {
    if (pipe >= 0) {
      close(std::exchange(pipe, -1));
      rest.erase(rest.find_last_not_of('\r') + 1);
      if (!rest.empty()) {
        add(std::exchange(rest, ""), pump);
        show(pump);
      }
    }
  }

  PumpedStream to;
  Terminal* terminal = nullptr;
  int pipe;
  int file = -1;
  int filtered = -1;
  std::string rest;   ///< the last, incomplete line
  std::string lines;  ///< to be shown
  std::string filtered_lines;
  std::size_t taken = 0;  ///< bytes from the pipe
};

LogPump::LogPump(Warn warn, std::chrono::milliseconds patience) : warn_(std::move(warn)), patience_(patience) {}

/// Prints a warning, unless standard error would block.
void LogPump::warn_of(const std::string& line) const {
  if (takes_more(STDERR_FILENO, std::chrono::milliseconds(0))) {
    warn_(line);
  }
}

LogPump::~LogPump() {
  if (thread_.joinable()) {
    ask_to_finish();
    thread_.join();
    close(wake_);
  }
}

Result<int> LogPump::add(const PumpedStream& stream) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return fail("--tee", "", "cannot create a pipe: " + errno_text(errno), "raising ulimit -n", ErrorKind::Unavailable);
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  auto made = std::make_unique<Stream>(stream, ends[0]);
  for (const auto& [path, descriptor] :
       {std::pair(&stream.file, &made->file), std::pair(&stream.filtered, &made->filtered)}) {
    const Result<int> opened = path->empty() ? Result<int>(-1) : open_log(*path);
    if (!opened) {
      close(ends[1]);
      return opened.error();
    }
    *descriptor = *opened;
  }
  if (stream.terminal >= 0) {
    std::unique_ptr<Terminal>& terminal = terminals_[stream.terminal];
    terminal = terminal ? std::move(terminal) : std::make_unique<Terminal>(stream.terminal);
    made->terminal = terminal.get();
  }
  streams_.push_back(std::move(made));
  return ends[1];
}

void LogPump::start() {
  if (!streams_.empty()) {
    wake_ = eventfd(0, EFD_CLOEXEC);
    finished_ = false;
    thread_ = thread_without_signals([this] { run(); });
  }
}

void LogPump::run() {
  const auto is_open = [](const std::unique_ptr<Stream>& stream) { return stream->pipe >= 0; };
  bool to_finish = false;
  while (!to_finish && std::ranges::any_of(streams_, is_open)) {
    std::vector<pollfd> waiting{{wake_, POLLIN, 0}};
    for (const auto& stream : streams_) {
      waiting.push_back({stream->pipe, POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), -1) < 0) {
      continue;
    }
    to_finish = waiting.front().revents != 0;
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      if (to_finish) {
        streams_[i]->read_rest(*this);
      } else if (waiting[i + 1].revents != 0) {
        streams_[i]->read_some(*this);
      }
    }
  }
  streams_.clear();
  finished_ = true;
}

void LogPump::ask_to_finish() {
  const std::uint64_t one = 1;
  if (thread_.joinable()) {
    (void)!::write(wake_, &one, sizeof one);
  } else {
    streams_.clear();
  }
}

}  // namespace rollcall::elastic

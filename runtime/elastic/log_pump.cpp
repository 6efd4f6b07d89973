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
#include <string_view>
#include <utility>

#include "runtime/elastic/log_folders.h"

namespace rollcall::elastic {
namespace {

/// A line that does not end is shown in pieces of this size.
constexpr std::size_t kLongestLine = 1 << 16;

/// All of it; 0 or errno. A file takes it or not; a terminal or pipe that is non-blocking is waited for.
int write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(count));
    } else if (errno == EAGAIN) {
      pollfd writable{descriptor, POLLOUT, 0};
      poll(&writable, 1, -1);
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

}  // namespace

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

  void to_file(int& descriptor, const std::string& path, std::string_view bytes, const Warn& warn) const {
    const int error = descriptor < 0 ? 0 : write_all(descriptor, bytes);
    if (error != 0) {
      close(std::exchange(descriptor, -1));
      warn(fmt::format("{}: cannot be written any longer: {}", path, errno_text(error)));
    }
  }

  void take(std::string_view bytes, const Warn& warn) {
    to_file(file, to.file, bytes, warn);
    rest += bytes;
    std::size_t end = 0;
    while ((end = rest.find_first_of("\r\n")) != std::string::npos || rest.size() > kLongestLine) {
      const std::size_t length = std::min({end, kLongestLine, rest.size()});
      if (rest.compare(length, 2, "\r\n") == 0) {
        end += 1;
      } else if (end != std::string::npos && rest[end] == '\r' && end + 1 == rest.size()) {
        return;  // a line feed may follow
      }
      show(std::string_view(rest).substr(0, length), warn);
      rest.erase(0, end == std::string::npos ? length : end + 1);
    }
  }

  void show(std::string_view line, const Warn& warn) {
    const std::string whole = fmt::format("{}{}\n", to.prefix, line);
    if (to.terminal >= 0 && write_all(to.terminal, whole) == EPIPE) {
      to.terminal = -1;  // `| head` has ended
    }
    const bool wanted = std::ranges::any_of(
        to.words, [&](const std::string& word) { return line.find(word) != std::string_view::npos; });
    if (wanted) {
      to_file(filtered, to.filtered, whole, warn);
    }
  }

  /// False: the other end is closed, or nothing is there now.
  bool read_some(const Warn& warn) {
    std::array<char, 16384> piece{};
    const ssize_t count = ::read(pipe, piece.data(), piece.size());
    if (count > 0) {
      taken += static_cast<std::size_t>(count);
      take({piece.data(), static_cast<std::size_t>(count)}, warn);
      return true;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
      return false;
    }
    close_pipe(warn);
    return false;
  }

  /// What is in the pipe now, whatever is written to it meanwhile.
  void read_rest(const Warn& warn) {
    int left = 0;
    ioctl(pipe, FIONREAD, &left);
    for (std::size_t before = taken; pipe >= 0 && taken - before < static_cast<std::size_t>(left);) {
      if (!read_some(warn)) {
        break;
      }
    }
    close_pipe(warn);
  }

  void close_pipe(const Warn& warn) {
    if (pipe >= 0) {
      close(std::exchange(pipe, -1));
      rest.erase(rest.find_last_not_of('\r') + 1);
      if (!rest.empty()) {
        show(std::exchange(rest, ""), warn);
      }
    }
  }

  PumpedStream to;
  int pipe;
  int file = -1;
  int filtered = -1;
  std::string rest;       ///< of the last line, which has not ended
  std::size_t taken = 0;  ///< bytes from the pipe
};

LogPump::LogPump(Warn warn) : warn_(std::move(warn)) {}

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
    return fail("--tee", "", "no pipe can be made: " + errno_text(errno), "a higher ulimit -n", ExitCode::Unavailable);
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
  streams_.push_back(std::move(made));
  return ends[1];
}

void LogPump::start() {
  if (!streams_.empty()) {
    wake_ = eventfd(0, EFD_CLOEXEC);
    finished_ = false;
    thread_ = std::thread([this] { run(); });
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
        streams_[i]->read_rest(warn_);
      } else if (waiting[i + 1].revents != 0) {
        streams_[i]->read_some(warn_);
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

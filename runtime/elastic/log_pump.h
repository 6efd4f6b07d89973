#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/elastic/unblocked_output.h"

namespace rollcall::elastic {

/// One stream of a worker, which is copied to a file and to the terminal.
struct PumpedStream {
  std::string prefix;    ///< put before each line on the terminal and in the filtered file
  std::string file;      ///< receives all bytes unchanged
  int terminal = -1;     ///< descriptor, not owned; -1: not shown
  std::string filtered;  ///< receives the lines that contain one of `words`; empty: no such file
  std::vector<std::string> words;
};

/// Copies the workers' output (--tee) in a thread of its own, so that a stuck terminal or a slow disk delays nothing
/// else. A stuck terminal delays the workers for at most `patience`; after that, lines go to the files only, until the
/// terminal accepts data again. Lines end at a line feed or, as progress displays use it, a carriage return, and are
/// written as a whole, each with its worker's prefix.
class LogPump {
 public:
  /// `warn` is called in the thread: once for each file that can no longer be written (a full disk), whose stream is
  /// still shown on the terminal, and for a terminal that does not respond.
  using Warn = std::function<void(const std::string& line)>;
  explicit LogPump(Warn warn, std::chrono::milliseconds patience = kTerminalPatience);
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;
  /// Waits until finished().
  ~LogPump();

  /// Returns a pipe's write end for a worker, close-on-exec; the caller closes it once the worker has it. To be called
  /// before start(). Errors (CannotCreate): the file cannot be created; (Unavailable): no more descriptors.
  [[nodiscard]] Result<int> add(const PumpedStream& stream);

  /// Starts the thread; does nothing where no stream was added.
  void start();
  /// Requests that output written so far is copied and everything is closed; processes that workers left behind get
  /// SIGPIPE when they write again. Returns immediately, since the terminal may not respond.
  void ask_to_finish();
  /// Returns whether that is done.
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  struct Stream;
  struct Terminal;
  void run();
  void warn_of(const std::string& line) const;

  Warn warn_;
  std::chrono::milliseconds patience_;
  std::map<int, std::unique_ptr<Terminal>> terminals_;  ///< by descriptor
  std::vector<std::unique_ptr<Stream>> streams_;
  int wake_ = -1;  ///< eventfd: stop waiting for more output
  std::atomic<bool> finished_ = true;
  std::thread thread_;
};

}  // namespace rollcall::elastic

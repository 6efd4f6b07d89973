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

/// One stream of a worker, on its way to a file and to the terminal.
struct PumpedStream {
  std::string prefix;    ///< before each line on the terminal, and in the filtered file
  std::string file;      ///< gets all bytes as they are
  int terminal = -1;     ///< descriptor, not owned; -1: not shown
  std::string filtered;  ///< gets the lines that hold one of `words`; empty: none
  std::vector<std::string> words;
};

/// Carries what workers write (--tee) in a thread of its own, so that a terminal that stands still or a slow disk holds
/// up nothing else; and workers no longer than the terminal's patience: then their lines are in the files alone, until
/// it takes some again. Lines end at a line feed or, as progress displays have it, a carriage return, and come out
/// whole, each with its worker's prefix.
class LogPump {
 public:
  /// `warn` is called in the thread, once for each file that cannot be written any longer (a full disk): its stream
  /// still shows on the terminal; and for a terminal that stands still.
  using Warn = std::function<void(const std::string& line)>;
  explicit LogPump(Warn warn, std::chrono::milliseconds patience = kTerminalPatience);
  LogPump(const LogPump&) = delete;
  LogPump& operator=(const LogPump&) = delete;
  /// Waits until finished().
  ~LogPump();

  /// A pipe's end for a worker to write to, close-on-exec; the caller closes it once the worker has it. Before start().
  /// Errors (CannotCreate): the file cannot be made; (Unavailable): no more descriptors.
  [[nodiscard]] Result<int> add(const PumpedStream& stream);

  /// Starts the thread. Nothing where no stream was added.
  void start();
  /// What has been written by now is carried still, then all is closed: processes that workers left behind and that
  /// write on get SIGPIPE. Returns at once: the terminal may stand still.
  void ask_to_finish();
  /// Whether that has been done.
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
  int wake_ = -1;  ///< eventfd: no more is to be awaited
  std::atomic<bool> finished_ = true;
  std::thread thread_;
};

}  // namespace rollcall::elastic

#pragma once

#include <sys/types.h>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rollcall::process_group {

/// Returns a name for the processes that see each other's PIDs: the kernel's boot ID and the PID namespace. Empty if
/// /proc does not have them.
[[nodiscard]] std::string process_space();

/// Returns a name for this process that is unique in a cluster: its process_space() and its PID. Empty if /proc does
/// not have the former.
[[nodiscard]] std::string process_identity();

/// Returns the PID of process `identity` as this process sees it; unset if it runs on another host or in another PID
/// namespace.
[[nodiscard]] std::optional<pid_t> local_process(const std::string& identity);

/// Knows which ranks' processes have ended. It sees at once when a process of this host ends, also one that is not a
/// child. For other hosts, and on kernels without pidfds, other sources report the end. Thread-safe.
class ProcessWatch {
 public:
  /// Throws std::system_error if no descriptor or thread is available.
  ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  /// Watches the process `identity` (see process_identity()) of `rank`, if it runs on this host.
  void add(std::uint32_t rank, const std::string& identity);

  /// Records that the process of `rank` has ended, as another source reports.
  void end(std::uint32_t rank);

  /// Returns the ranks that have ended, without the first `known` ones, and adds their number to `known`. If there are
  /// none, waits for one for at most `longest`, or until wake() while `gives_up` is set.
  [[nodiscard]] std::vector<std::uint32_t> await_ended(std::size_t& known, std::chrono::milliseconds longest,
                                                       const std::atomic<bool>& gives_up);
  /// Makes waiting threads check `gives_up`.
  void wake();

  /// Calls `callback` on any thread whenever a process has ended, until the same `owner` passes an empty one. The lock
  /// is held during the call, so it must not block.
  void notify(const void* owner, std::function<void()> callback);

  [[nodiscard]] bool has_ended(std::uint32_t rank) const;
  /// Returns whether `rank` is watched and has not ended; it may be stopped.
  [[nodiscard]] bool is_alive(std::uint32_t rank) const;

 private:
  void await_events_of(int descriptor, std::uint64_t name, std::uint32_t events) const;
  void run();
  [[nodiscard]] bool is_known(std::uint32_t rank) const;

  int epoll_fd_ = -1;
  int stop_fd_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, int> processes_;  ///< pidfds by rank, readable once the process has ended
  std::vector<std::uint32_t> ended_;        ///< ranks in the order in which their end was seen
  std::map<const void*, std::function<void()>> callbacks_;
  std::thread thread_;
};

/// Maps a group's ranks to their numbers in the step, by which messages name them. The group may be a row or a column
/// of a mesh of ranks; by default it is the whole step.
struct RankNames {
  std::uint32_t first = 0;   ///< number in the step of the group's rank 0
  std::uint32_t stride = 1;  ///< difference between the numbers of consecutive ranks of the group
  std::uint32_t ranks = 0;   ///< number of ranks of the step; 0: as many as the group has

  [[nodiscard]] std::uint32_t number(std::uint32_t rank) const { return first + rank * stride; }
  /// Returns the group's rank with this number in the step, in a group of `size`; unset if the group does not have it.
  [[nodiscard]] std::optional<std::uint32_t> rank_of(std::uint32_t number, std::uint32_t size) const {
    const bool member = number >= first && (number - first) % stride == 0 && (number - first) / stride < size;
    return member ? std::optional((number - first) / stride) : std::nullopt;
  }
  /// Returns "rank 6".
  [[nodiscard]] std::string of(std::uint32_t rank) const { return "rank " + std::to_string(number(rank)); }
};

}  // namespace rollcall::process_group

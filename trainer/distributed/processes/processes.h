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

/// Names the processes that can see each other's PIDs: boot of the kernel, PID namespace. Empty where /proc does not
/// say.
[[nodiscard]] std::string process_space();

/// Names this process among all of a cluster: its process_space() and its PID. Empty where /proc does not say.
[[nodiscard]] std::string process_identity();

/// The PID of the process `identity` for this one. Nothing where it runs on another host or in another PID namespace.
[[nodiscard]] std::optional<pid_t> local_process(const std::string& identity);

/// Which ranks' processes have ended, for all who want to know. Sees at once that one of this host has, also one that
/// is nobody's child; where the kernel cannot tell, and of other hosts, somebody else says so. Thread-safe.
class ProcessWatch {
 public:
  /// Throws std::system_error without a descriptor or a thread to spare.
  ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  /// Watches the process `identity` (see process_identity()) of `rank`, if it is one of this host and runs.
  void add(std::uint32_t rank, const std::string& identity);

  /// Somebody else has seen that it has ended.
  void end(std::uint32_t rank);

  /// The ranks that have ended, but for the first `known` that did; `known` counts them afterwards. Waits for one for
  /// `longest`, or until wake() where `gives_up` is set.
  [[nodiscard]] std::vector<std::uint32_t> await_ended(std::size_t& known, std::chrono::milliseconds longest,
                                                       const std::atomic<bool>& gives_up);
  /// Has those who wait look whether they give up.
  void wake();

  /// `callback` is called, in any thread, whenever one has ended; with the lock held, so it must not
  /// block. Until the same `owner` gives an empty one.
  void tell(const void* owner, std::function<void()> callback);

  [[nodiscard]] bool has_ended(std::uint32_t rank) const;
  /// Whether `rank` is watched and has not ended: it may be stopped.
  [[nodiscard]] bool lives(std::uint32_t rank) const;

 private:
  void await_events_of(int descriptor, std::uint64_t name, std::uint32_t events) const;
  void run();
  [[nodiscard]] bool is_known(std::uint32_t rank) const;

  int epoll_fd_ = -1;
  int stop_fd_ = -1;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint32_t, int> processes_;  ///< by rank; readable once it has ended
  std::vector<std::uint32_t> ended_;        ///< in the order in which this was seen
  std::map<const void*, std::function<void()>> told_;
  std::thread thread_;
};

/// How messages call the ranks of a group: by their numbers in the step, of which the group may be a part. A row or a
/// column of a grid of ranks, as of Mesh, is such a part; by default it is the step itself.
struct RankNames {
  std::uint32_t first = 0;   ///< the number in the step of the group's rank 0
  std::uint32_t stride = 1;  ///< from each rank of the group to the next
  std::uint32_t ranks = 0;   ///< of the step; 0: as many as the group has

  [[nodiscard]] std::uint32_t number(std::uint32_t rank) const { return first + rank * stride; }
  /// The other way round, in a group of `size`; nothing for a rank that is none of its.
  [[nodiscard]] std::optional<std::uint32_t> rank_of(std::uint32_t number, std::uint32_t size) const {
    const bool member = number >= first && (number - first) % stride == 0 && (number - first) / stride < size;
    return member ? std::optional((number - first) / stride) : std::nullopt;
  }
  /// "rank 6"
  [[nodiscard]] std::string of(std::uint32_t rank) const { return "rank " + std::to_string(number(rank)); }
};

}  // namespace rollcall::process_group

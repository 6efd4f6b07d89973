#pragma once

#include <sys/types.h>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace rollcall::process_group {

/// Names the processes that can see each other's PIDs: boot of the kernel, PID namespace. Empty where /proc does not
/// say.
[[nodiscard]] std::string process_space();

/// Names this process among all of a cluster: its process_space() and its PID. Empty where /proc does not say.
[[nodiscard]] std::string process_identity();

/// The PID of the process `identity` for this one. Nothing where it runs on another host or in another PID namespace.
[[nodiscard]] std::optional<pid_t> local_process(const std::string& identity);

/// Sees at once that processes of this host have ended, also those that are nobody's children. Where the kernel cannot
/// tell, none is watched.
///
/// add() before other threads know of it, await_end() by one thread, the rest by any.
class ProcessWatch {
 public:
  /// Throws std::system_error without a descriptor to spare.
  ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;
  ~ProcessWatch();

  /// Watches the process `identity` (see process_identity()) of `rank`, if it is one of this host and runs.
  void add(std::uint32_t rank, const std::string& identity);

  /// Waits until a process ends, `longest` is over or wake() was called: the ranks that ended, each told once.
  [[nodiscard]] std::vector<std::uint32_t> await_end(std::chrono::milliseconds longest);
  /// Ends await_end() from now on, for good.
  void wake() const;

  /// Becomes readable when await_end() would return at once, for those who wait for other things as well. Owned by
  /// this.
  [[nodiscard]] int descriptor() const { return epoll_fd_; }

  [[nodiscard]] bool has_ended(std::uint32_t rank) const;
  /// Whether `rank` is watched and has not ended: it may be stopped.
  [[nodiscard]] bool lives(std::uint32_t rank) const;

 private:
  void await_events_of(int descriptor, std::uint64_t name, std::uint32_t events) const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::map<std::uint32_t, int> processes_;  ///< by rank; readable once it has ended
};

/// How messages call the ranks of a group: by their numbers in the step, of which the group may be a part. A row or a
/// column of a grid of ranks, as of Mesh, is such a part; by default it is the step itself.
struct RankNames {
  std::uint32_t first = 0;   ///< the number in the step of the group's rank 0
  std::uint32_t stride = 1;  ///< from each rank of the group to the next
  std::uint32_t ranks = 0;   ///< of the step; 0: as many as the group has

  [[nodiscard]] std::uint32_t number(std::uint32_t rank) const { return first + rank * stride; }
  /// "rank 6"
  [[nodiscard]] std::string of(std::uint32_t rank) const { return "rank " + std::to_string(number(rank)); }
};

}  // namespace rollcall::process_group

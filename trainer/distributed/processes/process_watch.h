#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace rollcall::process_group {

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

  [[nodiscard]] bool has_ended(std::uint32_t rank) const;
  /// Whether `rank` is watched and has not ended: it may be stopped.
  [[nodiscard]] bool lives(std::uint32_t rank) const;

 private:
  void await_events_of(int descriptor, std::uint64_t name, std::uint32_t events) const;

  int epoll_fd_ = -1;
  int wake_fd_ = -1;
  std::map<std::uint32_t, int> processes_;  ///< by rank; readable once it has ended
};

}  // namespace rollcall::process_group

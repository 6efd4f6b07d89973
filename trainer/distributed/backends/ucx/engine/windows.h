#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::process_group::ucx {

/// Whether UCX_TLS, where the environment has it, leaves room for them: it does where it allows all transports through
/// shared memory (all, sm, shm, or ^ with others), not where it names single ones.
[[nodiscard]] bool may_use_windows();

/// Memory of each rank of a group that all others see, where they are processes of one host: two windows a rank, by
/// turns; see algorithms/windows.h. It has no name in a file system, so nothing of it stays behind, and it lives as
/// long as anybody sees it: who reads the window of a rank that died reads what that left there. Pages that no
/// collective has used take no memory.
///
/// What is written before a message is seen by who has received it. One thread at a time.
class Windows {
 public:
  /// Of one window, in bytes.
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  /// Makes this rank's own. Where the kernel refuses, nobody can see it.
  explicit Windows(std::uint32_t world_size);
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;
  ~Windows();

  /// What others need to see it; bytes.
  [[nodiscard]] std::string card() const;
  /// Whether this rank now sees the windows of `peer`, given its process_identity() and its card: not those of another
  /// host, PID namespace or user.
  bool see(std::uint32_t peer, const std::string& identity, const std::string& card);

  /// This rank's own, in turn 0, 1, 2...
  [[nodiscard]] std::byte* own(std::uint64_t turn) const { return own_ + offset(turn); }
  /// The others', which it has seen, by rank; null for this rank.
  [[nodiscard]] std::vector<const std::byte*> of_peers(std::uint64_t turn) const;

 private:
  /// Before the windows: so that a process which was given the PID of one that ended is not taken for it.
  static constexpr std::size_t kHeadBytes = 4096;
  static constexpr std::size_t kMappedBytes = kHeadBytes + 2 * kBytes;
  [[nodiscard]] static std::size_t offset(std::uint64_t turn) { return kHeadBytes + turn % 2 * kBytes; }

  int descriptor_ = -1;
  std::uint64_t number_;  ///< random, at the beginning of the memory
  std::byte* own_ = nullptr;
  std::vector<std::byte*> peers_;  ///< null where this rank does not see it
};

}  // namespace rollcall::process_group::ucx

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace rollcall::process_group::ucx {

/// Returns whether UCX_TLS allows shared memory: if it is unset, or allows all transports over shared memory (all, sm,
/// shm, or ^ with others), but not if it names single ones.
[[nodiscard]] bool may_use_shared_segments();

/// Memory of each rank of a group that all others map, if they are processes of one host: two parts a rank, used by
/// turns; see algorithms/shared_memory.h. It has no name in a file system, so nothing is left behind, and it exists as
/// long as a process maps it: the memory of a rank that died can still be read. Pages that no collective has used take
/// no memory.
///
/// What is written before a message is sent is visible after the message is received. One thread at a time.
class SharedSegments {
 public:
  /// Size of one part, in bytes.
  static constexpr std::size_t kBytes = std::size_t{4} << 20;

  /// Makes this rank's own memory. If the kernel refuses, no other rank can map it.
  explicit SharedSegments(std::uint32_t world_size);
  SharedSegments(const SharedSegments&) = delete;
  SharedSegments& operator=(const SharedSegments&) = delete;
  ~SharedSegments();

  /// Returns the bytes that other ranks need to map it.
  [[nodiscard]] std::string handle() const;
  /// Maps the memory of `peer`, given its process_identity() and its handle(). Returns whether that worked: not for
  /// another host, PID namespace or user.
  bool map_peer(std::uint32_t peer, const std::string& identity, const std::string& handle);

  /// Returns this rank's own part for turn 0, 1, 2...
  [[nodiscard]] std::byte* own(std::uint64_t turn) const { return own_ + offset(turn); }
  /// Returns the other ranks' parts, which see() has mapped, by rank; null for this rank.
  [[nodiscard]] std::vector<const std::byte*> peer_parts(std::uint64_t turn) const;

 private:
  /// Precedes the parts, and identifies the process: another one may have got the PID of one that ended.
  static constexpr std::size_t kHeadBytes = 4096;
  static constexpr std::size_t kMappedBytes = kHeadBytes + 2 * kBytes;
  [[nodiscard]] static std::size_t offset(std::uint64_t turn) { return kHeadBytes + turn % 2 * kBytes; }

  int descriptor_ = -1;
  std::uint64_t number_;  ///< random number at the beginning of the memory
  std::byte* own_ = nullptr;
  std::vector<std::byte*> peers_;  ///< by rank; null if it is not mapped
};

}  // namespace rollcall::process_group::ucx

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {

/// Bytes that this user may still write to a file system.
struct Room {
  std::uint64_t free = 0;  ///< of the file system, for users who are not root
  std::optional<std::uint64_t>
      quota;  ///< what a quota leaves of it; nothing where none is in force or can be asked for
};

/// Room at the folder `path`. Quotas are asked for by quotactl_fd(2), which local file systems answer; Lustre and GPFS
/// have means of their own, and there the allocation at the start of a write tells. Nothing where the system does not
/// say.
[[nodiscard]] std::optional<Room> room_at(const std::string& path);

/// Errors (InputOutput): `room` is less than `bytes`; says what is missing and where. Pure.
[[nodiscard]] Result<void> check_room(const std::string& path, const Room& room, std::uint64_t bytes);

}  // namespace rollcall::checkpoint::format

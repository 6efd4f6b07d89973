#pragma once

#include <cstdint>

#include "trainer/distributed/algorithms/transport.h"

namespace rollcall::process_group::ucx {

/// UCP's 64-bit tags: kind (2 bits), generation of the group (14), source rank (16), name (32). The generation keeps a
/// late message of a group that was given up out of its successor.
class Tags {
 public:
  static constexpr std::uint64_t kWhole = ~std::uint64_t{0};
  static constexpr std::uint64_t kFromAnybody = ~(std::uint64_t{0xffff} << 32);

  explicit Tags(std::uint32_t generation) : generation_(std::uint64_t{generation & 0x3fffU} << 48) {}

  /// Numbers wrap around at 2^16: only messages that may be under way together need different names.
  [[nodiscard]] std::uint64_t collective(std::uint32_t source, MessageName name) const {
    return tag(0, source, (name.operation & 0xffffU) << 16 | (name.message & 0xffffU));
  }
  [[nodiscard]] std::uint64_t point_to_point(std::uint32_t source, std::uint32_t user_tag) const {
    return tag(1, source, user_tag);
  }
  [[nodiscard]] std::uint64_t notice(std::uint32_t source) const { return tag(2, source, 0); }

  [[nodiscard]] static std::uint32_t source_of(std::uint64_t tag) {
    return static_cast<std::uint32_t>(tag >> 32) & 0xffffU;
  }

 private:
  [[nodiscard]] std::uint64_t tag(std::uint64_t kind, std::uint64_t source, std::uint32_t name) const {
    return kind << 62 | generation_ | (source & 0xffffU) << 32 | name;
  }

  std::uint64_t generation_;
};

}  // namespace rollcall::process_group::ucx

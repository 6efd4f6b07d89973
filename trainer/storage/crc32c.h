#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rollcall::storage {

/// CRC-32C (Castagnoli) of `bytes`, as iSCSI (RFC 3720, B.4), Btrfs and Google's crc32c compute it: reflected, initial
/// value and final XOR 0xffffffff. To continue over several pieces pass the result for the earlier ones as `previous`.
/// Uses the CPU's instructions (ISA-L). Thread-safe: pure.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

}  // namespace rollcall::storage

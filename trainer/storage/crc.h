#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rollcall::storage {

/// CRC-32C (Castagnoli) of `bytes`, as iSCSI (RFC 3720, B.4), Btrfs and Google's crc32c compute it: reflected, initial
/// value and final XOR 0xffffffff. To continue over several pieces pass the result for the earlier ones as `previous`.
/// Uses the CPU's instructions (ISA-L). Thread-safe: pure.
[[nodiscard]] std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous = 0);

/// The CRC-32C of two byte strings one after the other from that of each and the length of the second, in
/// O(log length): parts of one tensor are summed by different ranks. Thread-safe: pure.
[[nodiscard]] std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes);

/// CRC-32 of `bytes` as zip and gzip use it (ISO-HDLC: polynomial 0x04c11db7, reflected, initial value and final XOR
/// 0xffffffff). What rollcall's own files hold is CRC-32C. Uses the CPU's instructions (ISA-L). Thread-safe.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace rollcall::storage

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace rollcall::storage {

/// CRC-32 of `bytes` as zip and gzip use it (ISO-HDLC: polynomial 0x04c11db7, reflected, initial value and final XOR
/// 0xffffffff). What rollcall's own files hold is CRC-32C (crc32c.h). Uses the CPU's instructions (ISA-L). Thread-safe.
[[nodiscard]] std::uint32_t crc32(std::span<const std::byte> bytes);

}  // namespace rollcall::storage

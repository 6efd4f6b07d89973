#include "trainer/storage/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace rollcall::storage {

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // ISA-L counts in int
  std::uint32_t state = ~previous;  // ISA-L takes and gives the raw register, without the inversions
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    // ISA-L only reads; its prototype lacks the const.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

}  // namespace rollcall::storage

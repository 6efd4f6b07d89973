#pragma once

#include <cstddef>
#include <span>

namespace rollcall::data {

/// The orientation that a JPEG file's EXIF block names: 1 (as stored) ... 8, see Orientation; 1 where there is none or
/// it makes no sense. Reads no byte outside the file, whatever it holds. Thread-safe: pure.
/// Source: Exif 2.32 (CIPA DC-008), 4.6.4 tag 0x0112 and 4.7.2 APP1; TIFF 6.0, section 2.
[[nodiscard]] int exif_orientation(std::span<const std::byte> jpeg);

}  // namespace rollcall::data

#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "trainer/data/image/decode.h"

namespace rollcall::data {

// One function a format, behind decode().
[[nodiscard]] Result<Image> decode_jpeg(std::span<const std::byte> file, std::string_view name);
[[nodiscard]] Result<Image> decode_png(std::span<const std::byte> file, std::string_view name);

/// The Error for a file that cannot be decoded.
[[nodiscard]] Error damaged(std::string_view name, std::string reason);

/// Whether a header's size is one that decode() takes.
[[nodiscard]] bool size_is_sane(long long width, long long height);

}  // namespace rollcall::data

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// What a picture's header says.
struct PictureHeader {
  ImageSize size = {};                ///< as stored
  int orientation = 1;                ///< EXIF's 1 ... 8
  bool is_turned_by_readers = false;  ///< turning is a part of decoding, whatever a user asks for
};

/// A picture whose header is read, in a format that is decoded whole.
class WholePicture {
 public:
  WholePicture() = default;
  virtual ~WholePicture() = default;
  WholePicture(const WholePicture&) = delete;
  WholePicture& operator=(const WholePicture&) = delete;

  PictureHeader header;

  /// Writes header.size pixels of kPixelBytes each, row behind row. Errors: BadData. Once.
  [[nodiscard]] virtual Result<void> decode(std::uint8_t* pixels) = 0;
};

/// The picture in a file of the format, whose bytes must stay as long. Takes no memory for pixels: the caller looks at
/// the size first. Errors: BadData.
using OpenedPicture = Result<std::unique_ptr<WholePicture>>;

[[nodiscard]] OpenedPicture open_avif(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_bmp(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_gif(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_png(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_tiff(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_webp(std::span<const std::byte> file);

/// The picture in a file of any of these formats, told by its first bytes. Error (BadData): another format, whose name
/// is told where it is known; a format whose library this build lacks.
[[nodiscard]] OpenedPicture open_whole_picture(std::span<const std::byte> file);

}  // namespace rollcall::data

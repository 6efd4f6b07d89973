#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {

/// The content of a picture's header.
struct PictureHeader {
  ImageSize size = {};                ///< the size as stored, before turning
  int orientation = 1;                ///< EXIF orientation, 1 ... 8
  bool is_turned_by_readers = false;  ///< the orientation is always applied, whatever the options
};

/// A picture whose header has been read, in a format that can only be decoded completely.
class WholePicture {
 public:
  WholePicture() = default;
  virtual ~WholePicture() = default;
  WholePicture(const WholePicture&) = delete;
  WholePicture& operator=(const WholePicture&) = delete;

  PictureHeader header;

  /// Writes header.size pixels of kPixelBytes each, row by row. Called once. Errors: BadData.
  [[nodiscard]] virtual Result<void> decode(std::uint8_t* pixels) = 0;
};

/// Opens the picture in a file of one format, whose bytes must stay valid as long as the picture. Allocates no memory
/// for pixels: the caller checks the size first. Errors: BadData.
using OpenedPicture = Result<std::unique_ptr<WholePicture>>;

[[nodiscard]] OpenedPicture open_avif(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_bmp(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_gif(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_png(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_tiff(std::span<const std::byte> file);
[[nodiscard]] OpenedPicture open_webp(std::span<const std::byte> file);

/// Opens a file of any of these formats, which its first bytes decide. Error (BadData): another format, named if it is
/// known, or a format whose library this build lacks.
[[nodiscard]] OpenedPicture open_whole_picture(std::span<const std::byte> file);

/// Returns the names of the formats that this build reads, JPEG first.
[[nodiscard]] std::vector<std::string> image_formats();

}  // namespace rollcall::data

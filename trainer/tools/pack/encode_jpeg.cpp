#include "trainer/tools/pack/encode_jpeg.h"

#include <array>
#include <cstdlib>

#include "trainer/data/image/jpeg_errors.h"

namespace rollcall::pack {
namespace {

/// The smallest EXIF block that tells an orientation. Source: Exif 2.32 (CIPA DC-008), 4.6.4 and 4.7.2; TIFF 6.0.
std::array<unsigned char, 32> exif_block(int orientation) {
  return {'E',  'x',  'i', 'f', 0, 0,                                                    // of APP1
          'I',  'I',  42,  0,   8, 0, 0, 0,                                              // TIFF, little-endian
          1,    0,                                                                       // one entry
          0x12, 0x01, 3,   0,   1, 0, 0, 0, static_cast<unsigned char>(orientation), 0,  // tag, SHORT, one value
          0,    0,    0,   0,   0, 0};  // padding; no further directory
}

/// libjpeg's compressor and the memory that it writes into; libjpeg grows that with malloc.
class Compressor {
 public:
  Compressor() {
    object_.err = errors_.manager();
    jpeg_create_compress(&object_);
  }
  ~Compressor() {
    jpeg_destroy_compress(&object_);
    std::free(buffer_);
  }
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  [[nodiscard]] bool compress(std::span<const std::uint8_t> pixels, data::ImageSize size, int quality,
                              int orientation) {
    return errors_.run([&] { write(pixels, size, quality, orientation); });
  }

  [[nodiscard]] std::span<const std::byte> bytes() const { return {reinterpret_cast<std::byte*>(buffer_), bytes_}; }
  [[nodiscard]] const char* reason() const { return errors_.text(); }

 private:
  void write(std::span<const std::uint8_t> pixels, data::ImageSize size, int quality, int orientation) {
    jpeg_mem_dest(&object_, &buffer_, &bytes_);
    object_.image_width = static_cast<JDIMENSION>(size.width);
    object_.image_height = static_cast<JDIMENSION>(size.height);
    object_.input_components = data::kPixelBytes;
    object_.in_color_space = JCS_EXT_RGBX;
    jpeg_set_defaults(&object_);  // 4:2:0
    jpeg_set_quality(&object_, quality, TRUE);
    object_.optimize_coding = TRUE;
    jpeg_start_compress(&object_, TRUE);
    if (orientation != 1) {
      const auto block = exif_block(orientation);
      jpeg_write_marker(&object_, JPEG_APP0 + 1, block.data(), static_cast<unsigned>(block.size()));
    }
    const std::size_t row_bytes = static_cast<std::size_t>(size.width) * data::kPixelBytes;
    while (object_.next_scanline < object_.image_height) {
      JSAMPROW row = const_cast<JSAMPROW>(pixels.data() + object_.next_scanline * row_bytes);  // libjpeg only reads
      jpeg_write_scanlines(&object_, &row, 1);
    }
    jpeg_finish_compress(&object_);
  }

  data::JpegErrors errors_;
  jpeg_compress_struct object_{};
  unsigned char* buffer_ = nullptr;
  unsigned long bytes_ = 0;
};

}  // namespace

Result<std::vector<std::byte>> encode_jpeg(std::span<const std::uint8_t> pixels, data::ImageSize size, int quality,
                                           int orientation) {
  Compressor compressor;
  if (!compressor.compress(pixels, size, quality, orientation)) {
    return fail("rollcall-pack", "", std::string("libjpeg cannot encode the smaller picture: ") + compressor.reason(),
                "packing without --resize", ExitCode::Internal);
  }
  const auto bytes = compressor.bytes();
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

}  // namespace rollcall::pack

// AVIF by libavif. Of an animation the first frame is decoded.
#include <avif/avif.h>

#include <fmt/format.h>

#include <utility>

#include "trainer/data/image/whole_picture.h"

namespace rollcall::data {
namespace {

struct FreeDecoder {
  void operator()(avifDecoder* decoder) const { avifDecoderDestroy(decoder); }
};
using Decoder = std::unique_ptr<avifDecoder, FreeDecoder>;

Error damaged_avif(avifResult result) {
  return damaged(fmt::format("is a damaged AVIF file ({})", avifResultToString(result)));
}

/// Returns the EXIF orientation of the container's transforms. An EXIF block in the file is ignored: MIAF, 7.3.11.4.1.
int orientation_of(const avifImage& image) {
  const bool is_mirrored = (image.transformFlags & AVIF_TRANSFORM_IMIR) != 0;
  const unsigned turns = (image.transformFlags & AVIF_TRANSFORM_IROT) != 0 ? image.irot.angle : 0U;  // anticlockwise
  // irot is applied before imir. Index: the turns; each without a mirror, mirrored top to bottom, mirrored left to
  // right.
  constexpr int kNumbers[4][3] = {{1, 4, 2}, {8, 5, 7}, {3, 2, 4}, {6, 7, 5}};
  return kNumbers[turns & 3U][is_mirrored ? 1 + (image.imir.mode & 1U) : 0U];
}

class AvifPicture : public WholePicture {
 public:
  explicit AvifPicture(Decoder decoder) : decoder_(std::move(decoder)) {
    const avifImage& image = *decoder_->image;
    header = {{static_cast<int>(image.width), static_cast<int>(image.height)}, orientation_of(image)};
  }

  [[nodiscard]] Result<void> decode(std::uint8_t* pixels) override {
    if (const avifResult result = avifDecoderNextImage(decoder_.get()); result != AVIF_RESULT_OK) {
      return damaged_avif(result);
    }
    avifRGBImage rgb;
    avifRGBImageSetDefaults(&rgb, decoder_->image);
    if (static_cast<int>(rgb.width) != header.size.width || static_cast<int>(rgb.height) != header.size.height) {
      return damaged("is a damaged AVIF file (the image is not of the size that its header states)");
    }
    rgb.depth = 8;
    rgb.format = AVIF_RGB_FORMAT_RGBA;
    rgb.pixels = pixels;
    rgb.rowBytes = rgb.width * kPixelBytes;
    const avifResult result = avifImageYUVToRGB(decoder_->image, &rgb);
    return result == AVIF_RESULT_OK ? Result<void>() : damaged_avif(result);
  }

 private:
  Decoder decoder_;
};

}  // namespace

OpenedPicture open_avif(std::span<const std::byte> file) {
  Decoder decoder(avifDecoderCreate());
  if (!decoder) {
    return no_memory();
  }
  if (avifCodecName(AVIF_CODEC_CHOICE_AOM, AVIF_CODEC_FLAG_CAN_DECODE) != nullptr) {
    decoder->codecChoice = AVIF_CODEC_CHOICE_AOM;  // dav1d prints messages about damage
  }
  decoder->maxThreads = 1;
  decoder->ignoreExif = AVIF_TRUE;
  decoder->ignoreXMP = AVIF_TRUE;
  decoder->imageSizeLimit = static_cast<std::uint32_t>(kMaxPixels);
  decoder->strictFlags = AVIF_STRICT_DISABLED;  // as Pillow: accepts files of older encoders
  avifResult result =
      avifDecoderSetIOMemory(decoder.get(), reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
  result = result == AVIF_RESULT_OK ? avifDecoderParse(decoder.get()) : result;
  if (result != AVIF_RESULT_OK) {
    return damaged_avif(result);
  }
  return std::unique_ptr<WholePicture>(std::make_unique<AvifPicture>(std::move(decoder)));
}

}  // namespace rollcall::data

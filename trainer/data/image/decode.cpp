#include "trainer/data/image/decode.h"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <utility>

#include "trainer/data/image/entropy_decoder.h"
#include "trainer/data/image/exif.h"
#include "trainer/data/image/formats.h"
#include "trainer/data/image/jpeg_file.h"
#include "trainer/data/image/orientation.h"
#include "trainer/data/image/png_file.h"
#include "trainer/data/image/tiled_jpeg.h"

namespace rollcall::data {
namespace {

constexpr std::array kJpegMagic{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
constexpr std::array kPngMagic{std::byte{0x89}, std::byte{'P'},  std::byte{'N'},  std::byte{'G'},
                               std::byte{0x0d}, std::byte{0x0a}, std::byte{0x1a}, std::byte{0x0a}};

bool starts_with(std::span<const std::byte> file, std::span<const std::byte> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

int reduced(int length, int reduction) { return (length + reduction - 1) / reduction; }

Box reduced(const Box& box, int reduction) {
  return {box.left / reduction, box.top / reduction, reduced(box.width, reduction), reduced(box.height, reduction)};
}

}  // namespace

Error damaged(std::string reason) {
  return fail("--data", "", std::move(reason), "replacing or removing the file", ExitCode::BadData);
}

Error no_memory() { return damaged("cannot be decoded: no memory left"); }

Result<void> check_size(long long width, long long height) {
  if (width < 1 || height < 1) {
    return damaged("has no pixels");
  }
  if (width > kMaxPixels / height) {
    return damaged(fmt::format("has {} x {} pixels, more than {}", width, height, kMaxPixels));
  }
  return {};
}

class ImageDecoder::State {
 public:
  explicit State(const DecodeOptions& options)
      : State(options, options.own_entropy_decoder && own_entropy_decoder_works()) {}

  Result<ImageSize> open(const EncodedImage& file) {
    format_ = Format::None;
    const Result<ImageSize> size = open_stored(file);
    if (!size) {
      format_ = Format::None;
      return size.error();
    }
    size_ = *size;
    orientation_ = Orientation::from_exif(options_.apply_orientation ? orientation_of(file) : 1);
    return orientation_.turned(size_);
  }

  [[nodiscard]] int reduction_for(const Box& box, ImageSize wanted) const {
    const bool worth_it = box.width / 2 >= wanted.width && box.height / 2 >= wanted.height;
    const bool possible = format_ == Format::Jpeg || (format_ == Format::TiledJpeg && tiled_jpeg_.can_be_halved());
    return options_.dct_scaling && possible && worth_it ? 2 : 1;
  }

  Result<PixelView> decode(const Box& box, int reduction) {
    const Box upright = reduced(box, reduction);
    const ImageSize stored{reduced(size_.width, reduction), reduced(size_.height, reduction)};
    const Result<PixelView> view = decode_stored(orientation_.stored_box(upright, stored), reduction);
    if (!view || orientation_.is_upright()) {
      return view;
    }
    const PixelView turned = turn(*view, stored, orientation_, upright, turned_pixels_);
    return turned.pixels != nullptr ? Result<PixelView>(turned) : no_memory();
  }

 private:
  State(const DecodeOptions& options, bool own_entropy_decoder)
      : options_(options), jpeg_(own_entropy_decoder), tiled_jpeg_(own_entropy_decoder) {}

  enum class Format { None, Jpeg, TiledJpeg, Png };

  Result<ImageSize> open_stored(const EncodedImage& file) {
    if (starts_with(file.bytes, kJpegMagic) && file.tiling) {
      format_ = Format::TiledJpeg;
      return tiled_jpeg_.open(file.bytes, *file.tiling);
    }
    if (starts_with(file.bytes, kJpegMagic)) {
      format_ = Format::Jpeg;
      return jpeg_.open(file.bytes);
    }
    if (starts_with(file.bytes, kPngMagic)) {
      format_ = Format::Png;
      return png_.open(file.bytes);
    }
    return damaged(file.bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
  }

  [[nodiscard]] int orientation_of(const EncodedImage& file) const {
    if (file.tiling) {
      return file.tiling->orientation;
    }
    return format_ == Format::Jpeg ? exif_orientation(file.bytes) : 1;
  }

  Result<PixelView> decode_stored(const Box& box, int reduction) {
    switch (format_) {
      case Format::Jpeg:
        return jpeg_.decode(box, reduction, pixels_);
      case Format::TiledJpeg:
        return tiled_jpeg_.decode(box, reduction, pixels_);
      case Format::Png:
        return png_.decode(pixels_);
      case Format::None:
        break;
    }
    return damaged("was not opened");
  }

  DecodeOptions options_;
  Format format_ = Format::None;
  ImageSize size_ = {};  ///< as stored
  Orientation orientation_ = {};
  JpegFile jpeg_;
  TiledJpeg tiled_jpeg_;
  PngFile png_;
  KeptMemory pixels_;
  KeptMemory turned_pixels_;
};

ImageDecoder::ImageDecoder(const DecodeOptions& options) : state_(std::make_unique<State>(options)) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

Result<ImageSize> ImageDecoder::open(const EncodedImage& file) { return state_->open(file); }

int ImageDecoder::reduction_for(const Box& box, ImageSize wanted) const { return state_->reduction_for(box, wanted); }

Result<PixelView> ImageDecoder::decode(const Box& box, int reduction) { return state_->decode(box, reduction); }

}  // namespace rollcall::data

#include "trainer/data/image/image_decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/image/whole_picture.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/jpeg_file.h"
#include "trainer/data/jpeg/markers.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

/// How a stored picture is turned upright. Pixel (x, y) of the upright picture is at (x, y) of the stored one, or at
/// (y, x) if transposed, then counted from the other side if mirrored.
struct Orientation {
  bool transposed = false;
  bool mirrored_x = false;  ///< the stored x counts from the right
  bool mirrored_y = false;  ///< the stored y counts from the bottom

  /// Converts the EXIF orientation 1 ... 8: 1 as stored, 2 mirrored, 3 by 180 degrees, 4 mirrored top to bottom, 6 by
  /// 90 degrees clockwise, 8 by 90 degrees counterclockwise, 5 and 7 mirrored and then 8 and 6.
  [[nodiscard]] static Orientation from_exif(int number);

  [[nodiscard]] bool is_upright() const { return !transposed && !mirrored_x && !mirrored_y; }

  /// Returns the size of the upright picture; the function is its own inverse.
  [[nodiscard]] ImageSize turned(ImageSize size) const {
    return transposed ? ImageSize{size.height, size.width} : size;
  }

  /// Returns the box of the stored picture, whose size is `stored`, for a box of the upright one.
  [[nodiscard]] Box stored_box(const Box& upright, ImageSize stored) const;
};

Orientation Orientation::from_exif(int number) {
  constexpr std::array<Orientation, 9> kTurns{{{},
                                               {false, false, false},
                                               {false, true, false},
                                               {false, true, true},
                                               {false, false, true},
                                               {true, false, false},
                                               {true, false, true},
                                               {true, true, true},
                                               {true, true, false}}};
  return number >= 1 && number <= 8 ? kTurns[static_cast<std::size_t>(number)] : Orientation{};
}

Box Orientation::stored_box(const Box& upright, ImageSize stored) const {
  Box box = upright;
  if (transposed) {
    box = {upright.top, upright.left, upright.height, upright.width};
  }
  if (mirrored_x) {
    box.left = stored.width - box.right();
  }
  if (mirrored_y) {
    box.top = stored.height - box.bottom();
  }
  return box;
}

/// Copies the pixels of `upright` into `memory` from a view of the stored picture that covers its stored_box(). The
/// result has null pixels if out of memory.
PixelView turn(const PixelView& view, ImageSize stored, Orientation orientation, const Box& upright,
               ReusableBuffer& memory) {
  const std::size_t row_bytes = static_cast<std::size_t>(upright.width) * kPixelBytes;
  std::uint8_t* pixels = memory.at_least(row_bytes * static_cast<std::size_t>(upright.height) + kPixelSlack);
  if (pixels == nullptr) {
    return {};
  }
  const Box box = orientation.stored_box(upright, stored);
  const std::ptrdiff_t step_x = orientation.mirrored_x ? -kPixelBytes : kPixelBytes;
  const std::ptrdiff_t step_y = orientation.mirrored_y ? -view.row_bytes : view.row_bytes;
  const std::uint8_t* corner =
      view.at(orientation.mirrored_x ? box.right() - 1 : box.left, orientation.mirrored_y ? box.bottom() - 1 : box.top);
  const std::ptrdiff_t along_row = orientation.transposed ? step_y : step_x;
  const std::ptrdiff_t to_next_row = orientation.transposed ? step_x : step_y;
  std::uint8_t* out = pixels;
  for (int y = 0; y < upright.height; ++y) {
    for (int x = 0; x < upright.width; ++x, out += kPixelBytes) {
      std::memcpy(out, corner + y * to_next_row + x * along_row, kPixelBytes);
    }
  }
  return {pixels, static_cast<std::ptrdiff_t>(row_bytes), upright};
}

bool is_jpeg(std::span<const std::byte> file) {
  constexpr std::array kMagic{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
  return file.size() >= kMagic.size() && std::equal(kMagic.begin(), kMagic.end(), file.begin());
}

Box reduced(const Box& box, int reduction) {
  return {box.left / reduction, box.top / reduction, divided_up(box.width, reduction),
          divided_up(box.height, reduction)};
}

}  // namespace

class ImageDecoder::State {
 public:
  explicit State(const DecodeOptions& options)
      : State(options, options.own_entropy_decoder && own_entropy_decoder_works()) {}

  Result<ImageSize> open(const EncodedImage& file) {
    format_ = Format::None;
    whole_.reset();
    const Result<PictureHeader> header = open_stored(file);
    if (!header) {
      format_ = Format::None;
      return header.error();
    }
    header_ = *header;
    const bool is_turned = options_.apply_orientation || header_.is_turned_by_readers;
    orientation_ = Orientation::from_exif(is_turned ? header_.orientation : 1);
    return orientation_.turned(header_.size);
  }

  [[nodiscard]] int orientation() const { return header_.is_turned_by_readers ? 1 : header_.orientation; }

  [[nodiscard]] int reduction_for(const Box& box, ImageSize wanted) const {
    const bool worth_it = box.width / 2 >= wanted.width && box.height / 2 >= wanted.height;
    const bool possible = format_ == Format::Jpeg || (format_ == Format::TiledJpeg && tiled_jpeg_.can_be_halved());
    return options_.dct_scaling && possible && worth_it ? 2 : 1;
  }

  Result<PixelView> decode(const Box& box, int reduction) {
    const Box upright = reduced(box, reduction);
    const ImageSize stored{divided_up(header_.size.width, reduction), divided_up(header_.size.height, reduction)};
    Result<PixelView> view = decode_stored(orientation_.stored_box(upright, stored), reduction);
    if (!view || orientation_.is_upright()) {
      return view;
    }
    const PixelView turned = turn(*view, stored, orientation_, upright, turned_pixels_);
    return turned.pixels != nullptr ? Result<PixelView>(turned) : no_memory();
  }

 private:
  State(const DecodeOptions& options, bool own_entropy_decoder)
      : options_(options), jpeg_(own_entropy_decoder), tiled_jpeg_(own_entropy_decoder) {}

  enum class Format { None, Jpeg, TiledJpeg, Whole };

  Result<PictureHeader> open_stored(const EncodedImage& file) {
    if (is_jpeg(file.bytes)) {
      format_ = file.tiling ? Format::TiledJpeg : Format::Jpeg;
      const Result<ImageSize> size = file.tiling ? tiled_jpeg_.open(file.bytes, *file.tiling) : jpeg_.open(file.bytes);
      const int orientation = file.tiling ? file.tiling->orientation : exif_orientation(file.bytes);
      return size ? Result<PictureHeader>({*size, orientation}) : size.error();
    }
    format_ = Format::Whole;
    OpenedPicture opened = open_whole_picture(file.bytes);
    if (!opened) {
      return opened.error();
    }
    const PictureHeader header = (*opened)->header;
    RETURN_IF_ERROR(check_size(header.size.width, header.size.height));
    whole_ = *std::move(opened);
    whole_view_ = {};
    return header;
  }

  Result<PixelView> decode_whole() {
    if (whole_view_.pixels != nullptr) {  // decoded already
      return whole_view_;
    }
    const ImageSize size = header_.size;
    const std::size_t row_bytes = static_cast<std::size_t>(size.width) * kPixelBytes;
    std::uint8_t* memory = pixels_.at_least(row_bytes * static_cast<std::size_t>(size.height) + kPixelSlack);
    if (memory == nullptr) {
      return no_memory();
    }
    if (const Result<void> decoded = whole_->decode(memory); !decoded) {
      format_ = Format::None;
      return decoded.error();
    }
    whole_view_ = {memory, static_cast<std::ptrdiff_t>(row_bytes), {0, 0, size.width, size.height}};
    return whole_view_;
  }

  Result<PixelView> decode_stored(const Box& box, int reduction) {
    switch (format_) {
      case Format::Jpeg:
        return jpeg_.decode(box, reduction, pixels_);
      case Format::TiledJpeg:
        return tiled_jpeg_.decode(box, reduction, pixels_);
      case Format::Whole:
        return decode_whole();
      case Format::None:
        break;
    }
    return damaged("was not opened");
  }

  DecodeOptions options_;
  Format format_ = Format::None;
  PictureHeader header_ = {};
  Orientation orientation_ = {};  ///< what is to be turned
  JpegFile jpeg_;
  TiledJpeg tiled_jpeg_;
  std::unique_ptr<WholePicture> whole_;
  PixelView whole_view_ = {};  ///< null pixels: not decoded yet
  ReusableBuffer pixels_;
  ReusableBuffer turned_pixels_;
};

ImageDecoder::ImageDecoder(const DecodeOptions& options) : state_(std::make_unique<State>(options)) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

Result<ImageSize> ImageDecoder::open(const EncodedImage& file) { return state_->open(file); }

int ImageDecoder::orientation() const { return state_->orientation(); }

int ImageDecoder::reduction_for(const Box& box, ImageSize wanted) const { return state_->reduction_for(box, wanted); }

Result<PixelView> ImageDecoder::decode(const Box& box, int reduction) { return state_->decode(box, reduction); }

}  // namespace rollcall::data

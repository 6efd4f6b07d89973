#include "trainer/data/image/image_decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/image/png_file.h"
#include "trainer/data/jpeg/entropy_decoder.h"
#include "trainer/data/jpeg/jpeg_file.h"
#include "trainer/data/jpeg/markers.h"
#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

/// How a stored picture is turned to be upright: pixel (x, y) of the upright one lies at (x, y) of the stored one, or
/// at (y, x) if transposed; after that counted from the other side if mirrored.
struct Orientation {
  bool transposed = false;
  bool mirrored_x = false;  ///< the stored x counts from the right
  bool mirrored_y = false;  ///< the stored y counts from the bottom

  /// From EXIF's number 1 ... 8: 1 as stored, 2 mirrored, 3 by 180 degrees, 4 mirrored top to bottom, 6 by 90 degrees
  /// clockwise, 8 by 90 degrees counterclockwise, 5 and 7 mirrored and then 8 and 6.
  [[nodiscard]] static Orientation from_exif(int number);

  [[nodiscard]] bool is_upright() const { return !transposed && !mirrored_x && !mirrored_y; }

  /// The upright picture's size; the same function leads back.
  [[nodiscard]] ImageSize turned(ImageSize size) const {
    return transposed ? ImageSize{size.height, size.width} : size;
  }

  /// Where a box of the upright picture lies in the stored one, which has the size `stored`.
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

/// Copies the pixels of `upright` out of a view of the stored picture that covers its stored_box(). Null pixels in the
/// result where there is no memory left. The result lies in `memory`.
PixelView turn(const PixelView& view, ImageSize stored, Orientation orientation, const Box& upright,
               KeptMemory& memory) {
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

constexpr std::array kJpegMagic{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
constexpr std::array kPngMagic{std::byte{0x89}, std::byte{'P'},  std::byte{'N'},  std::byte{'G'},
                               std::byte{0x0d}, std::byte{0x0a}, std::byte{0x1a}, std::byte{0x0a}};

bool starts_with(std::span<const std::byte> file, std::span<const std::byte> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

/// ", but WebP", by the first bytes; empty: nothing known.
std::string other_kind(std::span<const std::byte> file) {
  using std::string_view_literals::operator""sv;
  struct Kind {
    std::size_t at;
    std::string_view magic;
    const char* name;
  };
  constexpr std::array kinds{
      Kind{8, "WEBP"sv, "WebP"},     Kind{0, "GIF8"sv, "GIF"},      Kind{0, "BM"sv, "BMP"},
      Kind{0, "II*\0"sv, "TIFF"},    Kind{0, "MM\0*"sv, "TIFF"},    Kind{4, "ftypavif"sv, "AVIF"},
      Kind{4, "ftyphei"sv, "HEIF"},  Kind{4, "ftypmif1"sv, "HEIF"}, Kind{0, "<"sv, "text in HTML or XML"},
      Kind{4, "jP  "sv, "JPEG 2000"}};
  const std::string_view text(reinterpret_cast<const char*>(file.data()), std::min<std::size_t>(file.size(), 64));
  for (const Kind& kind : kinds) {
    if (text.size() > kind.at && text.substr(kind.at).starts_with(kind.magic)) {
      return std::string(", but ") + kind.name;
    }
  }
  return "";
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
    const ImageSize stored{divided_up(size_.width, reduction), divided_up(size_.height, reduction)};
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
    return damaged(file.bytes.empty() ? "is empty" : "is neither a JPEG nor a PNG file" + other_kind(file.bytes));
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

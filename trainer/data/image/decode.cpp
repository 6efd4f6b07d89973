#include "trainer/data/image/decode.h"

#include <algorithm>
#include <array>
#include <utility>

#include "trainer/data/image/formats.h"

namespace rollcall::data {
namespace {

constexpr std::array kJpegMagic{std::byte{0xff}, std::byte{0xd8}, std::byte{0xff}};
constexpr std::array kPngMagic{std::byte{0x89}, std::byte{'P'},  std::byte{'N'},  std::byte{'G'},
                               std::byte{0x0d}, std::byte{0x0a}, std::byte{0x1a}, std::byte{0x0a}};

bool starts_with(std::span<const std::byte> file, std::span<const std::byte> magic) {
  return file.size() >= magic.size() && std::equal(magic.begin(), magic.end(), file.begin());
}

}  // namespace

Error damaged(std::string reason) {
  return fail("--data", "", std::move(reason), "replacing or removing the file", ExitCode::BadData);
}

bool size_is_sane(long long width, long long height) { return width > 0 && height > 0 && width <= kMaxPixels / height; }

class ImageDecoder::State {
 public:
  Result<ImageSize> open(const EncodedImage& file) {
    Result<Picture> decoded = decode_all(file.bytes);
    if (!decoded) {
      return decoded.error();
    }
    picture_ = *std::move(decoded);
    return picture_.size;
  }

  [[nodiscard]] PixelView all() const {
    return {picture_.pixels.data(),
            static_cast<std::ptrdiff_t>(picture_.size.width) * kPixelBytes,
            {0, 0, picture_.size.width, picture_.size.height}};
  }

 private:
  static Result<Picture> decode_all(std::span<const std::byte> file) {
    if (starts_with(file, kJpegMagic)) {
      return decode_jpeg(file);
    }
    if (starts_with(file, kPngMagic)) {
      return decode_png(file);
    }
    return damaged(file.empty() ? "is empty" : "is neither a JPEG nor a PNG file");
  }

  Picture picture_;
};

ImageDecoder::ImageDecoder(const DecodeOptions& /*options*/) : state_(std::make_unique<State>()) {}
ImageDecoder::~ImageDecoder() = default;
ImageDecoder::ImageDecoder(ImageDecoder&&) noexcept = default;
ImageDecoder& ImageDecoder::operator=(ImageDecoder&&) noexcept = default;

Result<ImageSize> ImageDecoder::open(const EncodedImage& file) { return state_->open(file); }

int ImageDecoder::reduction_for(const Box& /*box*/, ImageSize /*wanted*/) const { return 1; }

Result<PixelView> ImageDecoder::decode(const Box& /*box*/, int /*reduction*/) { return state_->all(); }

}  // namespace rollcall::data

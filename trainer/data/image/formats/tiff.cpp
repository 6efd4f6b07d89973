// TIFF by libtiff. Of several pages the first is decoded. Supports what Pillow reads, with the same pixels.
#include <tiffio.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "trainer/data/image/whole_picture.h"
#include "trainer/data/jpeg/decompressor.h"

namespace rollcall::data {
namespace {

/// The file that libtiff reads, and libtiff's error text.
struct TiffInput {
  std::span<const std::byte> file;
  std::size_t at = 0;
  std::array<char, 200> text{};  ///< of the first error

  static tmsize_t read(thandle_t handle, void* out, tmsize_t count) {
    TiffInput& self = *static_cast<TiffInput*>(handle);
    const std::size_t given =
        self.at < self.file.size() ? std::min(static_cast<std::size_t>(count), self.file.size() - self.at) : 0;
    if (given > 0) {
      std::memcpy(out, self.file.data() + self.at, given);
    }
    self.at += given;
    return static_cast<tmsize_t>(given);
  }

  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    TiffInput& self = *static_cast<TiffInput*>(handle);
    self.at = offset + (whence == SEEK_CUR ? self.at : whence == SEEK_END ? self.file.size() : 0);
    return self.at;
  }

  static int keep_error(TIFF* /*tiff*/, void* handle, const char* /*module*/, const char* format, va_list arguments) {
    TiffInput& self = *static_cast<TiffInput*>(handle);
    if (self.text[0] == '\0') {
      std::vsnprintf(self.text.data(), self.text.size(), format, arguments);
    }
    return 1;  // prevents printing
  }

  static int ignore(TIFF*, void*, const char*, const char*, va_list) { return 1; }
};

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};
struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

std::unique_ptr<TIFF, CloseTiff> open_with_libtiff(TiffInput& input) {
  constexpr tmsize_t kMostBytes = kMaxPixels * 8;  // of one allocation; no file needs more, see check_blocks()
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), kMostBytes);
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), TiffInput::keep_error, &input);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), TiffInput::ignore, nullptr);
  return std::unique_ptr<TIFF, CloseTiff>(TIFFClientOpenExt(
      "", "rm", &input, TiffInput::read, [](thandle_t, void*, tmsize_t) -> tmsize_t { return 0; }, TiffInput::seek,
      [](thandle_t) { return 0; },
      [](thandle_t handle) -> toff_t { return static_cast<TiffInput*>(handle)->file.size(); }, nullptr, nullptr,
      options.get()));
}

class TiffPicture : public WholePicture {
 public:
  explicit TiffPicture(std::span<const std::byte> file) : input_{.file = file} {}

  [[nodiscard]] Result<void> read_header() {
    tiff_ = open_with_libtiff(input_);
    if (!tiff_) {
      return failure();
    }
    const std::uint32_t width = field<std::uint32_t>(TIFFTAG_IMAGEWIDTH);
    const std::uint32_t height = field<std::uint32_t>(TIFFTAG_IMAGELENGTH);
    RETURN_IF_ERROR(check_size(width, height));
    header = {{static_cast<int>(width), static_cast<int>(height)}, field<std::uint16_t>(TIFFTAG_ORIENTATION), true};
    compression_ = field<std::uint16_t>(TIFFTAG_COMPRESSION);
    photometric_ = field<std::uint16_t>(TIFFTAG_PHOTOMETRIC);
    bits_ = field<std::uint16_t>(TIFFTAG_BITSPERSAMPLE);
    samples_ = field<std::uint16_t>(TIFFTAG_SAMPLESPERPIXEL);
    is_planar_ = field<std::uint16_t>(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && samples_ > 1;
    std::uint16_t extras = 0;
    const std::uint16_t* kinds = nullptr;
    TIFFGetFieldDefaulted(tiff_.get(), TIFFTAG_EXTRASAMPLES, &extras, &kinds);
    is_premultiplied_ = extras > 0 && kinds[0] == EXTRASAMPLE_ASSOCALPHA;
    return check_kind(extras);
  }

  [[nodiscard]] Result<void> decode(std::uint8_t* pixels) override {
    input_.text = {};  // of fields that pixels do not need
    const bool is_converted = is_left_to_libtiff();
    const bool is_read = is_converted ? read_by_libtiff(pixels) : read_blocks(pixels);
    // libtiff goes on after errors in fax data, and guesses the rest of a row.
    if (!is_read || input_.text[0] != '\0') {
      return failure();
    }
    if (!is_converted) {
      to_rgb(pixels);
    }
    return {};
  }

 private:
  template <typename T>
  [[nodiscard]] T field(std::uint32_t tag) const {
    T value = 0;
    TIFFGetFieldDefaulted(tiff_.get(), tag, &value);
    return value;
  }

  [[nodiscard]] Error failure() const {
    return damaged(fmt::format("is a damaged TIFF file ({})", static_cast<const char*>(input_.text.data())));
  }

  /// How many samples of a pixel are its colour, and how many it may have in all.
  struct Samples {
    int colours;
    int most;
  };

  /// Returns zeros for an unknown interpretation of the samples.
  [[nodiscard]] Samples known_samples() const {
    switch (photometric_) {
      case PHOTOMETRIC_MINISWHITE:
        return {1, 1};
      case PHOTOMETRIC_MINISBLACK:
      case PHOTOMETRIC_PALETTE:
        return {1, 2};
      case PHOTOMETRIC_RGB:
        return {3, 6};
      case PHOTOMETRIC_YCBCR:
        return {3, 3};
      case PHOTOMETRIC_SEPARATED:
        return {4, 6};
      default:
        return {};
    }
  }

  /// Returns whether libtiff must convert the picture, whose chroma is subsampled. JPEG-compressed data is returned as
  /// RGB.
  [[nodiscard]] bool is_left_to_libtiff() const {
    return photometric_ == PHOTOMETRIC_YCBCR && (compression_ != COMPRESSION_JPEG || is_planar_);
  }

  /// `extras`: how many samples of a pixel the file says are not its colour.
  [[nodiscard]] Result<void> check_kind(int extras) {
    const auto [colours, most] = known_samples();
    const bool has_few_bits = (bits_ == 1 || bits_ == 2 || bits_ == 4) && colours == 1 && samples_ == 1;
    const bool has_wide_bits = bits_ == 16 && photometric_ != PHOTOMETRIC_PALETTE && photometric_ != PHOTOMETRIC_YCBCR;
    const auto format = field<std::uint16_t>(TIFFTAG_SAMPLEFORMAT);
    const bool is_known = colours > 0 && samples_ >= colours + extras && samples_ <= most &&
                          (bits_ == 8 || has_few_bits || has_wide_bits) && compression_ != COMPRESSION_OJPEG &&
                          (!is_premultiplied_ || photometric_ == PHOTOMETRIC_RGB) &&
                          (format == SAMPLEFORMAT_UINT || format == SAMPLEFORMAT_VOID);
    if (!is_known || TIFFIsCODECConfigured(compression_) == 0) {
      return damaged(
          fmt::format("is a TIFF file of an unsupported kind: {} x {} bits, photometric interpretation {}, "
                      "compression {}, sample format {}",
                      samples_, bits_, photometric_, compression_, format));
    }
    if (photometric_ == PHOTOMETRIC_YCBCR && !is_left_to_libtiff()) {
      TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    }
    return check_blocks();
  }

  /// Checks the size of tiles, since a tile may be larger than the picture and needs its own memory.
  [[nodiscard]] Result<void> check_blocks() {
    is_tiled_ = TIFFIsTiled(tiff_.get()) != 0;
    const auto rows = field<std::uint32_t>(is_tiled_ ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP);
    const auto height = static_cast<std::uint32_t>(header.size.height);
    const long long block_width =
        is_tiled_ ? static_cast<long long>(field<std::uint32_t>(TIFFTAG_TILEWIDTH)) : header.size.width;
    const long long block_height = is_tiled_ ? rows : std::min(rows, height);
    block_size_ = {static_cast<int>(block_width), static_cast<int>(block_height)};
    return check_size(block_width, block_height);
  }

  [[nodiscard]] bool read_by_libtiff(std::uint8_t* pixels) const {
    // Keep the stored order: libtiff must not turn the picture.
    return TIFFReadRGBAImageOriented(tiff_.get(), static_cast<std::uint32_t>(header.size.width),
                                     static_cast<std::uint32_t>(header.size.height),
                                     reinterpret_cast<std::uint32_t*>(pixels), header.orientation, 1) != 0;
  }

  /// Reads the first four samples of each pixel as stored.
  [[nodiscard]] bool read_blocks(std::uint8_t* pixels) {
    TIFF* const tiff = tiff_.get();
    const tmsize_t block_bytes = is_tiled_ ? TIFFTileSize(tiff) : TIFFStripSize(tiff);
    const tmsize_t line = is_tiled_ ? TIFFTileRowSize(tiff) : TIFFScanlineSize(tiff);
    std::uint8_t* const bytes = block_bytes > 0 ? block_.at_least(static_cast<std::size_t>(block_bytes)) : nullptr;
    const int across = is_planar_ ? 1 : samples_;
    if (bytes == nullptr || line < (static_cast<tmsize_t>(block_size_.width) * across * bits_ + 7) / 8) {
      return false;
    }
    std::uint32_t index = 0;
    for (int plane = 0; plane < (is_planar_ ? samples_ : 1); ++plane) {
      for (int top = 0; top < header.size.height; top += block_size_.height) {
        for (int left = 0; left < header.size.width; left += block_size_.width, ++index) {
          const Box area{left, top, std::min(block_size_.width, header.size.width - left),
                         std::min(block_size_.height, header.size.height - top)};
          if (TIFFGetStrileOffset(tiff, index) == 0) {  // libtiff sets it where the file lists too few
            return missing_block(index);
          }
          const tmsize_t given = is_tiled_ ? TIFFReadEncodedTile(tiff, index, bytes, block_bytes)
                                           : TIFFReadEncodedStrip(tiff, index, bytes, block_bytes);
          if (given < line * area.height) {
            return false;
          }
          for (int y = 0; y < area.height; ++y) {
            take_row(bytes + y * line, area, plane, pixels + offset_of(area.left, area.top + y));
          }
        }
      }
    }
    return true;
  }

  [[nodiscard]] bool missing_block(std::uint32_t index) {
    fmt::format_to_n(input_.text.data(), input_.text.size() - 1, "strip or tile {} is missing", index);
    return false;
  }

  [[nodiscard]] std::size_t offset_of(int x, int y) const {
    return (static_cast<std::size_t>(y) * static_cast<std::size_t>(header.size.width) + static_cast<std::size_t>(x)) *
           kPixelBytes;
  }

  void take_row(const std::uint8_t* row, const Box& area, int plane, std::uint8_t* out) const {
    const int across = is_planar_ ? 1 : samples_;
    const int taken = std::min(across, kPixelBytes - plane);
    for (int x = 0; x < area.width; ++x, out += kPixelBytes) {
      for (int i = 0; i < taken; ++i) {
        out[plane + i] =
            level_at(row, static_cast<std::size_t>(x) * static_cast<std::size_t>(across) + static_cast<std::size_t>(i));
      }
    }
  }

  void to_rgb(std::uint8_t* pixels) const {
    const std::array<const std::uint16_t*, 3> colours = colour_map();
    const std::size_t end = offset_of(0, header.size.height);
    for (std::uint8_t* pixel = pixels; pixel < pixels + end; pixel += kPixelBytes) {
      const std::uint8_t level = pixel[0];
      switch (photometric_) {
        case PHOTOMETRIC_MINISWHITE:
          std::fill_n(pixel, 3, static_cast<std::uint8_t>(255 - level));
          break;
        case PHOTOMETRIC_MINISBLACK:
          std::fill_n(pixel, 3, level);
          break;
        case PHOTOMETRIC_PALETTE:
          for (std::size_t c = 0; c < 3; ++c) {
            pixel[c] = static_cast<std::uint8_t>(colours[c] != nullptr ? colours[c][level] >> 8U : level);
          }
          break;
        case PHOTOMETRIC_SEPARATED:
          std::transform(pixel, pixel + 4, pixel, [](int ink) { return static_cast<std::uint8_t>(255 - ink); });
          break;
        default:
          if (is_premultiplied_) {
            divide_by_alpha(pixel);
          }
      }
    }
    if (photometric_ == PHOTOMETRIC_SEPARATED) {
      cmyk_to_rgb(pixels, offset_of(0, 1), header.size.width, header.size.height);
    }
  }

  [[nodiscard]] std::array<const std::uint16_t*, 3> colour_map() const {
    std::array<const std::uint16_t*, 3> colours{};
    if (photometric_ == PHOTOMETRIC_PALETTE) {
      TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &colours[0], &colours[1], &colours[2]);
    }
    return colours;
  }

  static void divide_by_alpha(std::uint8_t* pixel) {
    const int alpha = pixel[3];
    std::transform(pixel, pixel + 3, pixel, [alpha](int level) {
      return static_cast<std::uint8_t>(alpha == 0 ? 0 : std::min(level * 255 / alpha, 255));
    });
  }

  /// Returns a sample as 0 ... 255; in a palette image, the index of its colour.
  [[nodiscard]] std::uint8_t level_at(const std::uint8_t* row, std::size_t i) const {
    if (bits_ == 16) {  // in the byte order of the machine
      std::uint16_t level = 0;
      std::memcpy(&level, row + 2 * i, 2);
      return static_cast<std::uint8_t>(level >> 8U);
    }
    if (bits_ == 8) {
      return row[i];
    }
    const unsigned most = (1U << bits_) - 1;
    const unsigned level = unsigned{row[i * bits_ / 8]} >> (8 - bits_ - i * bits_ % 8) & most;
    return static_cast<std::uint8_t>(photometric_ == PHOTOMETRIC_PALETTE ? level : level * (255 / most));
  }

  TiffInput input_;
  std::unique_ptr<TIFF, CloseTiff> tiff_;
  std::uint16_t compression_ = 0;
  std::uint16_t photometric_ = 0;
  std::uint16_t bits_ = 0;     ///< of a sample
  std::uint16_t samples_ = 0;  ///< of a pixel
  bool is_planar_ = false;
  bool is_tiled_ = false;
  bool is_premultiplied_ = false;
  ImageSize block_size_ = {};  ///< of a tile, or a strip
  ReusableBuffer block_;
};

}  // namespace

OpenedPicture open_tiff(std::span<const std::byte> file) {
  auto picture = std::make_unique<TiffPicture>(file);
  const Result<void> read = picture->read_header();
  return read ? OpenedPicture(std::move(picture)) : read.error();
}

}  // namespace rollcall::data

#include "trainer/tools/pack/prepare.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/image/resize.h"
#include "trainer/data/jpeg/errors.h"
#include "trainer/data/jpeg/repack.h"
#include "trainer/data/pixels.h"
#include "trainer/data/sources/image_folder.h"
#include "trainer/storage/crc.h"

namespace rollcall::pack {
namespace {

/// Returns the smallest EXIF block with an orientation. Source: Exif 2.32 (CIPA DC-008), 4.6.4 and 4.7.2; TIFF 6.0.
std::array<unsigned char, 32> exif_block(int orientation) {
  return {'E',  'x',  'i', 'f', 0, 0,                                                    // of APP1
          'I',  'I',  42,  0,   8, 0, 0, 0,                                              // TIFF, little-endian
          1,    0,                                                                       // one entry
          0x12, 0x01, 3,   0,   1, 0, 0, 0, static_cast<unsigned char>(orientation), 0,  // tag, SHORT, one value
          0,    0,    0,   0,   0, 0};  // padding; no further directory
}

/// libjpeg's compressor and its output buffer, which libjpeg grows with malloc.
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

/// Encodes [height][width][4] bytes (red, green, blue, unused) as a baseline JPEG file (4:2:0, optimised Huffman
/// tables). An `orientation` other than 1 is stored as an EXIF block. Error (Internal): libjpeg failed, or out of
/// memory.
Result<std::vector<std::byte>> encode_jpeg(std::span<const std::uint8_t> pixels, data::ImageSize size, int quality,
                                           int orientation) {
  Compressor compressor;
  if (!compressor.compress(pixels, size, quality, orientation)) {
    return fail("--resize", "", std::string("libjpeg cannot encode the resized image: ") + compressor.reason(),
                "packing without --resize", ErrorKind::Internal);
  }
  const auto bytes = compressor.bytes();
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

constexpr std::size_t kMostBytes = std::size_t{1} << 30;  // maximum size of a file; the format's lengths have 32 bits

data::Box whole(data::ImageSize size) { return {0, 0, size.width, size.height}; }

bool same_pixels(const data::PixelView& a, const data::PixelView& b, data::ImageSize size) {
  for (int y = 0; y < size.height; ++y) {
    const std::uint8_t* left = a.at(0, y);
    const std::uint8_t* right = b.at(0, y);
    for (int x = 0; x < size.width; ++x, left += data::kPixelBytes, right += data::kPixelBytes) {
      if (std::memcmp(left, right, 3) != 0) {  // the fourth byte is unused
        return false;
      }
    }
  }
  return true;
}

/// Returns the picture's size after reducing its shorter side to at most `most` pixels.
data::ImageSize reduced(data::ImageSize size, int most) {
  const int shorter = std::min(size.width, size.height);
  const auto scaled = [&](int side) {
    const auto pixels = (static_cast<std::int64_t>(side) * most + shorter / 2) / shorter;
    return static_cast<int>(std::max<std::int64_t>(pixels, 1));
  };
  return {scaled(size.width), scaled(size.height)};
}

void refuse(PreparedSample& sample, const Error& error) {
  sample.outcome = Outcome::Bad;
  sample.note = error.reason;
  sample.kind = error.kind;
}

/// Checks that the file is still as stat(2) reported it: otherwise it is being written.
Result<std::span<const std::byte>> read_unchanged(const std::string& path, const SourceFacts& facts,
                                                  std::vector<std::byte>& buffer) {
  auto bytes = data::read_file(path, buffer);
  if (bytes && source_facts(path) != facts) {
    return fail("DIR", path, "changed while it was read", "packing when nothing writes to it any more",
                ErrorKind::InputOutput);
  }
  return bytes;
}

}  // namespace

SourceFacts source_facts(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) {
    return {};
  }
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return {facts.st_size, facts.st_mtim.tv_sec * kNanoseconds + facts.st_mtim.tv_nsec};
}

Result<data::PixelView> Preparer::decode(data::ImageDecoder& decoder, const data::EncodedImage& file) {
  const Result<data::ImageSize> size = decoder.open(file);
  return size ? decoder.decode(whole(*size)) : size.error();
}

Result<void> Preparer::resize_into(PreparedSample& sample, const data::PixelView& pixels) {
  const data::ImageSize size{pixels.area.width, pixels.area.height};
  const data::ImageSize smaller = reduced(size, options_.resize);
  std::vector<std::uint8_t> resized_pixels(static_cast<std::size_t>(smaller.width) *
                                           static_cast<std::size_t>(smaller.height) * data::kPixelBytes);
  data::resize_to_uint8(
      pixels, {.source = whole(size), .width = smaller.width, .height = smaller.height, .wanted = whole(smaller)},
      resized_pixels.data());
  ASSIGN_OR_RETURN(std::vector<std::byte> jpeg,
                   encode_jpeg(resized_pixels, smaller, options_.quality, sample.entry.orientation));
  sample.stored = std::move(jpeg);
  sample.outcome = Outcome::Resized;
  sample.entry.width = static_cast<std::uint32_t>(smaller.width);
  sample.entry.height = static_cast<std::uint32_t>(smaller.height);
  return {};
}

bool Preparer::gives(const data::PixelView& pixels, const data::EncodedImage& repacked) {
  const auto after = decode(repacked_decoder_, repacked);
  const data::ImageSize size{pixels.area.width, pixels.area.height};
  return after && after->area.width >= size.width && after->area.height == size.height &&
         same_pixels(pixels, *after, size);
}

void Preparer::repack_into(PreparedSample& sample, const Result<data::PixelView>& pixels) {
  const Result<data::Repacked> repacked = data::repack(sample.stored);
  if (!repacked) {
    sample.note = repacked.error().reason;
    return;
  }
  const bool equal = pixels && pixels->area == whole(repacked->size) &&
                     gives(*pixels, {.bytes = repacked->jpeg, .tiling = repacked->tiling()}) &&
                     gives(*pixels, {.bytes = repacked->jpeg});
  if (!equal) {
    sample.note = "does not decode to the same pixels once repacked (please report this file)";
    return;
  }
  sample.stored.assign(repacked->jpeg.begin(), repacked->jpeg.end());
  const auto lengths = std::as_bytes(std::span(repacked->tile_bytes));
  sample.stored.insert(sample.stored.end(), lengths.begin(), lengths.end());
  sample.entry.tile_count = static_cast<std::uint32_t>(repacked->tile_bytes.size());
  sample.entry.length = static_cast<std::uint32_t>(repacked->jpeg.size());
  sample.outcome = sample.outcome == Outcome::Resized ? Outcome::ResizedAndRepacked : Outcome::Repacked;
}

PreparedSample Preparer::prepare(const std::string& path, std::int32_t label) {
  PreparedSample sample;
  sample.source = source_facts(path);
  const auto bytes = read_unchanged(path, sample.source, buffer_.bytes);
  if (!bytes) {
    refuse(sample, bytes.error());
    return sample;
  }
  if (bytes->size() > kMostBytes) {
    refuse(sample, fail("", "", fmt::format("has {} bytes, more than {}", bytes->size(), kMostBytes), ""));
    return sample;
  }
  const auto pixels = decode(decoder_, {.bytes = *bytes});
  if (!pixels) {
    refuse(sample, pixels.error());
    return sample;
  }
  sample.outcome = Outcome::Kept;
  sample.entry.label = label;
  sample.entry.width = static_cast<std::uint32_t>(pixels->area.width);
  sample.entry.height = static_cast<std::uint32_t>(pixels->area.height);
  sample.entry.orientation = static_cast<std::uint8_t>(decoder_.orientation());
  const bool too_large = options_.resize > 0 && std::min(pixels->area.width, pixels->area.height) > options_.resize;
  if (too_large) {
    if (const auto resized = resize_into(sample, *pixels); !resized) {
      refuse(sample, resized.error());
      return sample;
    }
  } else {
    sample.stored.assign(bytes->begin(), bytes->end());
  }
  sample.entry.length = static_cast<std::uint32_t>(sample.stored.size());
  if (options_.repack) {
    repack_into(sample, too_large ? decode(decoder_, {.bytes = sample.stored}) : pixels);
  }
  sample.entry.crc32c = storage::crc32c(sample.stored);
  return sample;
}

}  // namespace rollcall::pack

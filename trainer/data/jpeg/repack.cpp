#include "trainer/data/jpeg/repack.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "trainer/data/encoded_image.h"
#include "trainer/data/jpeg/errors.h"
#include "trainer/data/jpeg/markers.h"

namespace rollcall::data {
namespace {

constexpr long kMaxCoefficientMemory = 1L << 30;  // of each of the two sets of coefficients

/// The division of a picture's MCUs into tiles.
struct TileLayout {
  int mcu_width = 0;   ///< in pixels
  int tile_mcus = 0;   ///< in a row of a tile
  int row_mcus = 0;    ///< in a row of the picture, filled up to whole tiles
  int mcu_rows = 0;    ///< of the picture
  bool wider = false;  ///< than the picture, by at least one MCU
};

/// Returns whether decoders interpolate columns of a component: pixels right of the picture would then influence its
/// last column.
bool interpolates_columns(const jpeg_decompress_struct& source) {
  return std::any_of(source.comp_info, source.comp_info + source.num_components,
                     [&](const auto& component) { return component.h_samp_factor != source.max_h_samp_factor; });
}

/// Returns the divisor of `mcus` whose ratio to `wanted` is the smallest; 1 is one of them.
int nearest_divisor(int mcus, int wanted) {
  const auto ratio = [&](int divisor) {
    return static_cast<double>(std::max(divisor, wanted)) / std::min(divisor, wanted);
  };
  int nearest = 1;
  for (int divisor = 2; divisor <= mcus; ++divisor) {
    if (mcus % divisor == 0 && ratio(divisor) < ratio(nearest)) {
      nearest = divisor;
    }
  }
  return nearest;
}

/// Restarts count MCUs across rows, so rows must be whole tiles. Either the tile divides them, and the JPEG is as wide
/// as the picture, or invisible MCUs pad them.
TileLayout layout_of(const jpeg_decompress_struct& source) {
  const bool single = source.num_components == 1;  // its sampling factors mean nothing
  TileLayout layout;
  layout.mcu_width = DCTSIZE * (single ? 1 : source.max_h_samp_factor);
  const int mcus = divided_up(static_cast<int>(source.image_width), layout.mcu_width);
  const int wanted = std::max(kTileWidth / layout.mcu_width, 1);
  layout.tile_mcus = interpolates_columns(source) ? nearest_divisor(mcus, wanted) : std::min(wanted, mcus);
  layout.row_mcus = divided_up(mcus, layout.tile_mcus) * layout.tile_mcus;
  layout.mcu_rows =
      divided_up(static_cast<int>(source.image_height), DCTSIZE * (single ? 1 : source.max_v_samp_factor));
  layout.wider = layout.row_mcus != mcus;
  return layout;
}

/// Converts a JPEG's coefficients to another JPEG in one pass.
class Recoder {
 public:
  Recoder();
  ~Recoder();
  Recoder(const Recoder&) = delete;
  Recoder& operator=(const Recoder&) = delete;

  [[nodiscard]] Result<ImageSize> read(std::span<const std::byte> jpeg);
  [[nodiscard]] Result<std::span<const std::byte>> write();

 private:
  using Arrays = std::array<jvirt_barray_ptr, MAX_COMPONENTS>;

  [[nodiscard]] const char* obstacle() const;
  [[nodiscard]] bool is_incomplete() const;
  void describe_target(const TileLayout& layout, Arrays& target);
  void copy_component(int component, const TileLayout& layout, jvirt_barray_ptr target);
  [[nodiscard]] Error failure() const;

  JpegErrors errors_;
  jpeg_decompress_struct source_{};
  jpeg_compress_struct target_{};
  jvirt_barray_ptr* coefficients_ = nullptr;
  unsigned char* written_ = nullptr;
  unsigned long written_bytes_ = 0;
};

Recoder::Recoder() {
  source_.err = errors_.manager();
  target_.err = errors_.manager();
}

Recoder::~Recoder() {
  jpeg_destroy_decompress(&source_);  // ignores an object that was not created
  jpeg_destroy_compress(&target_);
  std::free(written_);
}

Error Recoder::failure() const { return damaged(fmt::format("is a damaged JPEG file ({})", errors_.text())); }

/// Returns whether libjpeg guesses what a progressive file omits, which it does not do for the baseline file made of
/// it.
bool Recoder::is_incomplete() const {
  for (int component = 0; source_.coef_bits != nullptr && component < source_.num_components; ++component) {
    const int* bits = source_.coef_bits[component];
    if (std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; })) {
      return true;
    }
  }
  return false;
}

const char* Recoder::obstacle() const {
  if (source_.num_components != 1 && source_.num_components != 3) {
    return "is neither greyscale nor of three colours";
  }
  return source_.arith_code != 0 ? "uses arithmetic coding" : nullptr;
}

Result<ImageSize> Recoder::read(std::span<const std::byte> jpeg) {
  if (jpeg.size() < 2 || jpeg[0] != std::byte{0xFF} || jpeg[1] != std::byte{0xD8}) {
    return damaged("is not a JPEG file");
  }
  const bool header = errors_.run([&] {
    jpeg_create_decompress(&source_);
    source_.mem->max_memory_to_use = kMaxCoefficientMemory;
    jpeg_mem_src(&source_, reinterpret_cast<const unsigned char*>(jpeg.data()), jpeg.size());
    jpeg_read_header(&source_, TRUE);
  });
  if (!header) {
    return failure();
  }
  RETURN_IF_ERROR(check_size(source_.image_width, source_.image_height));
  if (const char* reason = obstacle(); reason != nullptr) {
    return damaged(reason);
  }
  if (!errors_.run([this] { coefficients_ = jpeg_read_coefficients(&source_); })) {
    return failure();
  }
  if (is_incomplete()) {
    return damaged("is a progressive JPEG file without its last scans");
  }
  return ImageSize{static_cast<int>(source_.image_width), static_cast<int>(source_.image_height)};
}

void Recoder::describe_target(const TileLayout& layout, Arrays& target) {
  jpeg_copy_critical_parameters(&source_, &target_);
  if (target_.num_components == 1) {
    target_.comp_info[0].h_samp_factor = 1;
    target_.comp_info[0].v_samp_factor = 1;
  }
  if (layout.wider) {
    target_.image_width = static_cast<JDIMENSION>(layout.row_mcus * layout.mcu_width);
  }
  target_.optimize_coding = TRUE;
  target_.restart_interval = static_cast<unsigned>(layout.tile_mcus);
  target_.scan_info = nullptr;
  for (int i = 0; i < target_.num_components; ++i) {
    const jpeg_component_info& component = target_.comp_info[i];
    target[static_cast<std::size_t>(i)] =
        (*target_.mem->request_virt_barray)(reinterpret_cast<j_common_ptr>(&target_), JPOOL_IMAGE, TRUE,
                                            static_cast<JDIMENSION>(layout.row_mcus * component.h_samp_factor),
                                            static_cast<JDIMENSION>(layout.mcu_rows * component.v_samp_factor),
                                            static_cast<JDIMENSION>(component.v_samp_factor));
  }
}

void Recoder::copy_component(int index, const TileLayout& layout, jvirt_barray_ptr target) {
  const jpeg_component_info& from = source_.comp_info[index];
  const auto width = static_cast<JDIMENSION>(layout.row_mcus * target_.comp_info[index].h_samp_factor);
  const auto height = static_cast<JDIMENSION>(layout.mcu_rows * target_.comp_info[index].v_samp_factor);
  for (JDIMENSION y = 0; y < std::min(height, from.height_in_blocks); ++y) {
    JBLOCKROW out = (*target_.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&target_), target, y, 1, TRUE)[0];
    const JBLOCKROW in = (*source_.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&source_),
                                                            coefficients_[index], y, 1, FALSE)[0];
    const JDIMENSION copied = std::min(width, from.width_in_blocks);
    std::memcpy(out, in, sizeof(JBLOCK) * copied);
    for (JDIMENSION x = copied; x < width; ++x) {  // flat and as bright as the neighbour: takes hardly any bits
      std::memset(out[x], 0, sizeof(JBLOCK));
      out[x][0] = out[copied - 1][0];
    }
  }
}

Result<std::span<const std::byte>> Recoder::write() {
  const TileLayout layout = layout_of(source_);
  const bool done = errors_.run([&] {
    Arrays arrays{};
    jpeg_create_compress(&target_);
    target_.mem->max_memory_to_use = kMaxCoefficientMemory;
    describe_target(layout, arrays);
    jpeg_mem_dest(&target_, &written_, &written_bytes_);
    jpeg_write_coefficients(&target_, arrays.data());
    for (int i = 0; i < target_.num_components; ++i) {
      copy_component(i, layout, arrays[static_cast<std::size_t>(i)]);
    }
    jpeg_finish_compress(&target_);
  });
  if (!done) {
    return failure();
  }
  return std::as_bytes(std::span(written_, written_bytes_));
}

/// Returns the lengths of the tiles of a file that libjpeg wrote: each ends with a marker, and nothing else looks like
/// one.
Result<std::vector<std::uint16_t>> tile_bytes_of(std::span<const std::byte> jpeg) {
  std::size_t begin = 0;
  JpegSegments segments(jpeg);
  while (const auto segment = segments.next()) {
    begin = segment->at + segment->content.size();
  }
  std::vector<std::uint16_t> lengths;
  for (std::size_t at = begin; at + 1 < jpeg.size(); ++at) {
    if (jpeg[at] == std::byte{0xff} && jpeg[at + 1] != std::byte{0}) {
      const std::size_t length = at + 2 - begin;
      if (length > std::numeric_limits<std::uint16_t>::max()) {
        return damaged("has a tile of more than 65535 bytes");
      }
      lengths.push_back(static_cast<std::uint16_t>(length));
      begin = at + 2;
    }
  }
  return lengths;
}

}  // namespace

Result<Repacked> repack(std::span<const std::byte> jpeg) {
  Recoder recoder;
  ASSIGN_OR_RETURN(const ImageSize size, recoder.read(jpeg));
  ASSIGN_OR_RETURN(const std::span<const std::byte> written, recoder.write());
  ASSIGN_OR_RETURN(std::vector<std::uint16_t> lengths, tile_bytes_of(written));
  return Repacked{{written.begin(), written.end()}, std::move(lengths), size, exif_orientation(jpeg)};
}

}  // namespace rollcall::data

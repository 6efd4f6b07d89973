#include "trainer/data/jpeg/decompressor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>

#include "trainer/data/encoded_image.h"

namespace rollcall::data {
namespace {

/// Pillow's MULDIV255: a * b / 255, rounded, without a division.
int multiply_255(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Each scan takes a pass over the picture however small the scan is, so a progressive file may not have thousands of
// them.
constexpr int kMaxScans = 100;
// Memory limit for the coefficients of progressive files, beyond which libjpeg fails. Enough for kMaxPixels with 4:2:0.
constexpr long kMaxMemory = 1L << 30;

void limit_scans(j_common_ptr object) {
  if (reinterpret_cast<j_decompress_ptr>(object)->input_scan_number > kMaxScans) {
    JpegErrors::raise(object, "More than 100 scans");
  }
}

/// Returns whether libjpeg smooths the edges of blocks, as it does for progressive files without low frequencies. It
/// then reads two blocks beyond the edges of a crop.
bool smooths_blocks(const jpeg_decompress_struct& libjpeg) {
  constexpr int kLowFrequencies = 10;
  if (libjpeg.coef_bits == nullptr) {
    return false;
  }
  for (int component = 0; component < libjpeg.num_components; ++component) {
    const int* bits = libjpeg.coef_bits[component];
    if (std::any_of(bits + 1, bits + kLowFrequencies, [](int missing) { return missing != 0; })) {
      return true;
    }
  }
  return false;
}

/// Returns whether jpeg_crop_scanline() works correctly. When halving a picture, libjpeg does a part of the upsampling
/// of chroma in the inverse DCT; libjpeg-turbo 2.1 then gets the width of a crop's chroma wrong.
bool can_crop_columns(const jpeg_decompress_struct& libjpeg) {
  const auto is_miscounted = [&](const jpeg_component_info& component) {
    const bool is_upsampled =
        component.h_samp_factor * component.DCT_scaled_size != libjpeg.max_h_samp_factor * libjpeg.min_DCT_scaled_size;
    return component.DCT_scaled_size != libjpeg.min_DCT_scaled_size && is_upsampled;
  };
  return std::none_of(libjpeg.comp_info, libjpeg.comp_info + libjpeg.num_components, is_miscounted);
}

/// Returns the MCUs that hold a range of columns. In a scan of one component they are single blocks, whatever its
/// factors.
ColumnRange mcus_of(const ColumnRange& columns, const jpeg_decompress_struct& libjpeg) {
  const int mcu_width = (libjpeg.comps_in_scan == 1 ? 1 : libjpeg.max_h_samp_factor) * libjpeg.min_DCT_scaled_size;
  return {columns.first / mcu_width, (columns.end + mcu_width - 1) / mcu_width};
}

}  // namespace

void cmyk_to_rgb(std::uint8_t* pixels, std::size_t row_bytes, int width, int height) {
  for (int y = 0; y < height; ++y) {
    std::uint8_t* pixel = pixels + static_cast<std::size_t>(y) * row_bytes;
    for (int x = 0; x < width; ++x, pixel += 4) {
      const int light = pixel[3];
      for (int channel = 0; channel < 3; ++channel) {
        pixel[channel] = static_cast<std::uint8_t>(light - multiply_255(255 - pixel[channel], light));
      }
    }
  }
}

ColumnRange with_context(int left, int right, int picture_width) {
  constexpr int kFewestColumns = 8;
  int first = std::max(left - 1, 0);
  int end = std::min(right + 1, picture_width);
  if (end - first < kFewestColumns) {
    first = std::max(first - kFewestColumns, 0);
    end = std::min(end + kFewestColumns, picture_width);
  }
  return {first, end};
}

JpegDecompressor::JpegDecompressor() {
  libjpeg_.err = errors_.manager();
  progress_.progress_monitor = limit_scans;
  if (!create()) {
    throw std::bad_alloc();  // its only failure
  }
}

bool JpegDecompressor::create() {
  const bool created = errors_.run([this] { jpeg_create_decompress(&libjpeg_); });
  if (created) {
    libjpeg_.mem->max_memory_to_use = kMaxMemory;
    libjpeg_.progress = &progress_;
  }
  return created;
}

JpegDecompressor::~JpegDecompressor() { jpeg_destroy_decompress(&libjpeg_); }

void JpegDecompressor::abort() {
  jpeg_abort_decompress(&libjpeg_);
  header_is_read_ = false;
}

Error JpegDecompressor::failure() const { return damaged(fmt::format("is a damaged JPEG file ({})", errors_.text())); }

bool JpegDecompressor::parse_header() {
  // A decompressor would use the tables of the previous file for one that lacks them.
  jpeg_destroy_decompress(&libjpeg_);
  header_is_read_ = create() && errors_.run([this] {
    jpeg_mem_src(&libjpeg_, reinterpret_cast<const unsigned char*>(file_.data()), file_.size());
    jpeg_read_header(&libjpeg_, TRUE);
  });
  return header_is_read_;
}

Result<ImageSize> JpegDecompressor::read_header(std::span<const std::byte> file) {
  file_ = file;
  if (!parse_header()) {
    return failure();
  }
  RETURN_IF_ERROR(check_size(libjpeg_.image_width, libjpeg_.image_height));
  return ImageSize{static_cast<int>(libjpeg_.image_width), static_cast<int>(libjpeg_.image_height)};
}

void JpegDecompressor::choose_part(const JpegCrop& crop, EntropyDecoder* entropy_decoder, Rows& rows) {
  if (smooths_blocks(libjpeg_)) {
    rows.count = static_cast<int>(libjpeg_.output_height);
    return;
  }
  const ColumnRange all{0, crop.picture_width};
  const ColumnRange needed =
      can_crop_columns(libjpeg_) ? with_context(crop.box.left, crop.box.right(), crop.picture_width) : all;
  auto first = static_cast<JDIMENSION>(needed.first);
  auto width = static_cast<JDIMENSION>(needed.end - needed.first);
  if (width != libjpeg_.output_width) {
    jpeg_crop_scanline(&libjpeg_, &first, &width);  // moves `first` to the left, to a whole MCU
  }
  if (entropy_decoder != nullptr) {
    entropy_decoder->attach(libjpeg_, mcus_of({static_cast<int>(first), needed.end}, libjpeg_));
  }
  rows.first_column = static_cast<int>(first);
  rows.first_row = crop.box.top;
  rows.count = crop.box.height;
}

bool JpegDecompressor::start(const JpegCrop& crop, EntropyDecoder* entropy_decoder, Rows& rows) {
  return errors_.run([&] {
    libjpeg_.out_color_space = libjpeg_.num_components == 4 ? JCS_CMYK : JCS_EXT_RGBX;
    libjpeg_.dct_method = JDCT_ISLOW;
    libjpeg_.do_fancy_upsampling = TRUE;  // without it, skipping rows gives wrong pixels (libjpeg-turbo 2.1)
    libjpeg_.do_block_smoothing = TRUE;
    libjpeg_.scale_num = static_cast<unsigned>(8 / crop.reduction);
    libjpeg_.scale_denom = 8;
    jpeg_start_decompress(&libjpeg_);
    choose_part(crop, entropy_decoder, rows);
  });
}

bool JpegDecompressor::read(const Rows& rows) {
  return errors_.run([&] {
    if (rows.first_row > 0) {
      jpeg_skip_scanlines(&libjpeg_, static_cast<JDIMENSION>(rows.first_row));
    }
    std::array<JSAMPROW, 16> next;
    for (int done = 0; done < rows.count;) {
      const int some = std::min(rows.count - done, static_cast<int>(next.size()));
      for (int i = 0; i < some; ++i) {
        next[static_cast<std::size_t>(i)] = rows.memory + static_cast<std::size_t>(done + i) * rows.row_bytes;
      }
      done += static_cast<int>(jpeg_read_scanlines(&libjpeg_, next.data(), static_cast<JDIMENSION>(some)));
    }
  });
}

/// Reads the rest of the file: whether it is damaged must not depend on the wanted part.
bool JpegDecompressor::read_to_end(const Rows& rows, EntropyDecoder* entropy_decoder) {
  return errors_.run([&] {
    if (jpeg_has_multiple_scans(&libjpeg_) != FALSE) {  // all scans were read at the start
      return;
    }
    if (entropy_decoder != nullptr && entropy_decoder->is_attached()) {
      entropy_decoder->read_to_end(libjpeg_);
      return;
    }
    JSAMPROW beyond = rows.memory + static_cast<std::size_t>(rows.count) * rows.row_bytes;
    while (libjpeg_.output_scanline < libjpeg_.output_height) {
      jpeg_read_scanlines(&libjpeg_, &beyond, 1);
    }
    jpeg_finish_decompress(&libjpeg_);
  });
}

Result<PixelView> JpegDecompressor::decode(const JpegCrop& crop, ReusableBuffer& pixels,
                                           EntropyDecoder* entropy_decoder) {
  Rows rows;
  if ((!header_is_read_ && !parse_header()) || !start(crop, entropy_decoder, rows)) {
    abort();
    return failure();
  }
  constexpr std::size_t kRowAlignment = 64;
  rows.row_bytes = (libjpeg_.output_width * std::size_t{kPixelBytes} + kRowAlignment - 1) & ~(kRowAlignment - 1);
  rows.memory = pixels.at_least(rows.row_bytes * static_cast<std::size_t>(rows.count + 1) + kPixelSlack);
  if (rows.memory == nullptr) {
    abort();
    return no_memory();
  }
  const bool is_cmyk = libjpeg_.out_color_space == JCS_CMYK;
  const bool complete = read(rows) && read_to_end(rows, entropy_decoder);
  abort();
  if (!complete) {
    return failure();
  }
  std::uint8_t* corner = rows.memory + static_cast<std::size_t>(crop.box.top - rows.first_row) * rows.row_bytes +
                         static_cast<std::size_t>(crop.box.left - rows.first_column) * kPixelBytes;
  if (is_cmyk) {
    cmyk_to_rgb(corner, rows.row_bytes, crop.box.width, crop.box.height);
  }
  return PixelView{corner, static_cast<std::ptrdiff_t>(rows.row_bytes), crop.box};
}

}  // namespace rollcall::data

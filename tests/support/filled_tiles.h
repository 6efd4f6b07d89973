#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include <jpeglib.h>

#include "trainer/data/jpeg/markers.h"
#include "trainer/data/jpeg/repack.h"

namespace rollcall::test {

/// Two of libjpeg's objects between which coefficients go; errors end the test program.
class CoefficientCopy {
 public:
  explicit CoefficientCopy(std::span<const std::byte> file) {
    source_.err = target_.err = jpeg_std_error(&errors_);
    jpeg_create_decompress(&source_);
    jpeg_create_compress(&target_);
    jpeg_mem_src(&source_, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&source_, TRUE);
    coefficients_ = jpeg_read_coefficients(&source_);
    jpeg_copy_critical_parameters(&source_, &target_);
  }
  ~CoefficientCopy() {
    jpeg_destroy_decompress(&source_);
    jpeg_destroy_compress(&target_);
    std::free(written_);
  }
  CoefficientCopy(const CoefficientCopy&) = delete;
  CoefficientCopy& operator=(const CoefficientCopy&) = delete;

  /// With rows that are filled up to whole tiles of 64 pixels.
  [[nodiscard]] std::vector<std::byte> with_filled_rows() {
    const bool single = source_.num_components == 1;
    const int mcu_width = DCTSIZE * (single ? 1 : source_.max_h_samp_factor);
    const int mcu_height = DCTSIZE * (single ? 1 : source_.max_v_samp_factor);
    const int mcus = (static_cast<int>(source_.image_width) + mcu_width - 1) / mcu_width;
    const int tile = std::min(64 / mcu_width, mcus);
    row_mcus_ = (mcus + tile - 1) / tile * tile;
    mcu_rows_ = (static_cast<int>(source_.image_height) + mcu_height - 1) / mcu_height;
    target_.comp_info[0].h_samp_factor = single ? 1 : target_.comp_info[0].h_samp_factor;
    target_.comp_info[0].v_samp_factor = single ? 1 : target_.comp_info[0].v_samp_factor;
    if (row_mcus_ != mcus) {
      target_.image_width = static_cast<JDIMENSION>(row_mcus_ * mcu_width);
    }
    target_.optimize_coding = TRUE;
    target_.restart_interval = static_cast<unsigned>(tile);
    write();
    const std::span<const std::byte> bytes = std::as_bytes(std::span(written_, written_bytes_));
    return {bytes.begin(), bytes.end()};
  }

  [[nodiscard]] data::ImageSize size() const {
    return {static_cast<int>(source_.image_width), static_cast<int>(source_.image_height)};
  }

 private:
  void write() {
    std::array<jvirt_barray_ptr, MAX_COMPONENTS> arrays{};
    for (int i = 0; i < target_.num_components; ++i) {
      const jpeg_component_info& component = target_.comp_info[i];
      arrays[static_cast<std::size_t>(i)] = (*target_.mem->request_virt_barray)(
          reinterpret_cast<j_common_ptr>(&target_), JPOOL_IMAGE, TRUE, blocks(row_mcus_ * component.h_samp_factor),
          blocks(mcu_rows_ * component.v_samp_factor), blocks(component.v_samp_factor));
    }
    jpeg_mem_dest(&target_, &written_, &written_bytes_);
    jpeg_write_coefficients(&target_, arrays.data());
    for (int i = 0; i < target_.num_components; ++i) {
      copy(i, arrays[static_cast<std::size_t>(i)]);
    }
    jpeg_finish_compress(&target_);
  }

  /// Of one component; right of the picture all is as bright as its last block.
  void copy(int index, jvirt_barray_ptr array) {
    const jpeg_component_info& from = source_.comp_info[index];
    const JDIMENSION width = blocks(row_mcus_ * target_.comp_info[index].h_samp_factor);
    for (JDIMENSION y = 0; y < from.height_in_blocks; ++y) {
      JBLOCKROW out =
          (*target_.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&target_), array, y, 1, TRUE)[0];
      const JBLOCKROW in = (*source_.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&source_),
                                                              coefficients_[index], y, 1, FALSE)[0];
      const JDIMENSION copied = std::min(width, from.width_in_blocks);
      std::memcpy(out, in, sizeof(JBLOCK) * copied);
      for (JDIMENSION x = copied; x < width; ++x) {
        out[x][0] = out[copied - 1][0];
      }
    }
  }

  static JDIMENSION blocks(int count) { return static_cast<JDIMENSION>(count); }

  jpeg_error_mgr errors_{};
  jpeg_decompress_struct source_{};
  jpeg_compress_struct target_{};
  jvirt_barray_ptr* coefficients_ = nullptr;
  int row_mcus_ = 0;
  int mcu_rows_ = 0;
  unsigned char* written_ = nullptr;
  unsigned long written_bytes_ = 0;
};

/// What repack() made before format 1.1 of packed files: every row filled up, whether chroma is interpolated or not.
inline data::Repacked repacked_before_1_1(std::span<const std::byte> file) {
  CoefficientCopy copy(file);
  data::Repacked repacked{copy.with_filled_rows(), {}, copy.size(), 1};
  std::size_t begin = 0;
  data::JpegSegments segments(repacked.jpeg);
  while (const auto segment = segments.next()) {
    begin = segment->at + segment->content.size();
  }
  for (std::size_t at = begin; at + 1 < repacked.jpeg.size(); ++at) {
    if (repacked.jpeg[at] == std::byte{0xff} && repacked.jpeg[at + 1] != std::byte{0}) {
      repacked.tile_bytes.push_back(static_cast<std::uint16_t>(at + 2 - begin));
      begin = at + 2;
    }
  }
  return repacked;
}

}  // namespace rollcall::test

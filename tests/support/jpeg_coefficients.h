#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tests/support/test_images.h"

namespace rollcall::test {

/// The content of an APP1 marker that names an orientation, in either byte order.
inline std::vector<std::byte> exif_with_orientation(int orientation, bool big_endian) {
  std::vector<std::byte> exif;
  const auto add_bytes = [&](const char* bytes, std::size_t count) {
    const auto* begin = reinterpret_cast<const std::byte*>(bytes);
    exif.insert(exif.end(), begin, begin + count);
  };
  const auto add_number = [&](unsigned value, unsigned bytes) {
    for (unsigned i = 0; i < bytes; ++i) {
      exif.push_back(static_cast<std::byte>(value >> 8 * (big_endian ? bytes - 1 - i : i)));
    }
  };
  add_bytes("Exif\0\0", 6);
  add_bytes(big_endian ? "MM" : "II", 2);
  add_number(42, 2);
  add_number(8, 4);       // where the first directory is
  add_number(2, 2);       // its entries
  add_number(0x0100, 2);  // a width that nobody asks for
  add_number(4, 2);
  add_number(1, 4);
  add_number(1234, 4);
  add_number(0x0112, 2);
  add_number(3, 2);
  add_number(1, 4);
  add_number(static_cast<unsigned>(orientation), 2);
  add_number(0, 2);
  add_number(0, 4);  // no other directory
  return exif;
}

/// The quantised DCT coefficients of a JPEG: for each component its blocks row by row, as many as the picture of
/// `like` has.
inline std::vector<std::int16_t> shared_coefficients(std::span<const std::byte> file, std::span<const std::byte> like) {
  jpeg_error_mgr errors{};
  std::array<jpeg_decompress_struct, 2> libjpeg{};
  std::array<std::span<const std::byte>, 2> files{file, like};
  for (std::size_t i = 0; i < 2; ++i) {
    libjpeg[i].err = jpeg_std_error(&errors);
    jpeg_create_decompress(&libjpeg[i]);
    jpeg_mem_src(&libjpeg[i], reinterpret_cast<const unsigned char*>(files[i].data()), files[i].size());
    jpeg_read_header(&libjpeg[i], TRUE);
  }
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&libjpeg[0]);
  jpeg_read_coefficients(&libjpeg[1]);
  std::vector<std::int16_t> all;
  for (int c = 0; c < libjpeg[1].num_components; ++c) {
    const jpeg_component_info& size = libjpeg[1].comp_info[c];
    for (JDIMENSION y = 0; y < size.height_in_blocks; ++y) {
      const JBLOCKROW row = (*libjpeg[0].mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(libjpeg.data()),
                                                                  arrays[c], y, 1, FALSE)[0];
      all.insert(all.end(), &row[0][0], &row[0][0] + std::size_t{size.width_in_blocks} * DCTSIZE2);
    }
  }
  jpeg_destroy_decompress(&libjpeg[0]);
  jpeg_destroy_decompress(&libjpeg[1]);
  return all;
}

inline std::vector<std::int16_t> coefficients(std::span<const std::byte> file) {
  return shared_coefficients(file, file);
}

/// A progressive file with so many scans taken from its end.
inline std::vector<std::byte> without_last_scans(std::vector<std::byte> file, int scans) {
  const std::array scan_start{std::byte{0xff}, std::byte{0xda}};
  for (; scans > 0; --scans) {
    file.erase(std::find_end(file.begin(), file.end(), scan_start.begin(), scan_start.end()), file.end());
  }
  file.insert(file.end(), {std::byte{0xff}, std::byte{0xd9}});
  return file;
}

}  // namespace rollcall::test

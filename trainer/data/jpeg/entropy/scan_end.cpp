#include <cstddef>

#include "trainer/data/jpeg/entropy_decoder.h"

extern "C" {
#define JPEG_INTERNALS  // declares boolean's counterpart, which jpegint.h needs
#include <jpegint.h>
}

namespace rollcall::data {
namespace {

/// The first members of libjpeg's Huffman decoders in jdhuff.c and jdphuff.c.
struct HuffmanDecoder {
  jpeg_entropy_decoder common;
  std::size_t bits;  ///< read in advance, the last one lowest
  int bits_left;     ///< how many of them
};

}  // namespace

bool scan_ended_cleanly(const jpeg_decompress_struct& libjpeg) {
  const bool in_scan =
      libjpeg.inputctl->consume_input == libjpeg.coef->consume_data;  // libjpeg then looks for a restart
  if (in_scan || libjpeg.arith_code != FALSE) {
    return false;
  }
  const auto& decoder = *reinterpret_cast<const HuffmanDecoder*>(libjpeg.entropy);
  const int padding = decoder.bits_left % 8;
  const std::size_t ones = (std::size_t{1} << padding) - 1;
  return padding == 0 || (decoder.bits >> (decoder.bits_left - padding) & ones) == ones;
}

}  // namespace rollcall::data

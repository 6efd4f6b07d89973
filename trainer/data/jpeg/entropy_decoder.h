#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>

#include <jpeglib.h>

namespace rollcall::data {

// The interface of trainer/data/jpeg/entropy, our own decoder of JPEG's Huffman-coded coefficients. It replaces a
// function in an internal structure of libjpeg (jpegint.h), which only that folder uses. Dequantisation, inverse DCT,
// upsampling and colour conversion remain libjpeg's, so the pixels are the same. Everything works without that folder
// (cmake -DROLLCALL_OWN_ENTROPY_DECODER=OFF), or if own_entropy_decoder_works() returns false.
//
// Decoding a crop takes 0.7 of the CPU time of libjpeg's decoder for ordinary files (640 of 900 microseconds), and 0.6
// for repacked ones (430 of 740): original_crop against original_crop_libjpeg, own_crop against splice_crop of
// build/release/benchmarks/data/decode_benchmark --benchmark_filter=_crop
// on its generated pictures of 500 x 375 pixels.

struct TileGrid;
struct TileRange;

/// The columns, of pixels or MCUs, that must be decoded so that certain pixels are right.
struct ColumnRange {
  int first = 0;
  int end = 0;
};

/// Replaces libjpeg's entropy decoder. Damage that it finds fails libjpeg's running call.
class EntropyDecoder {
 public:
  EntropyDecoder() = default;
  EntropyDecoder(const EntropyDecoder&) = delete;
  EntropyDecoder& operator=(const EntropyDecoder&) = delete;
  virtual ~EntropyDecoder() = default;

  /// Called when libjpeg is ready to decode. `needed_mcus` are the MCUs of each row that libjpeg transforms, in coded
  /// order. For a file that it does not support it leaves libjpeg's decoder in place. `this` must outlive the decoding.
  virtual void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) = 0;

  /// Reads from the decoded part to the file's end, so that damage there fails as in a full decoding.
  virtual void read_to_end(jpeg_decompress_struct& decompressor) = 0;

  /// Returns whether the last attach() was for a supported file.
  [[nodiscard]] virtual bool is_attached() const = 0;
};

/// An entropy decoder for the tiles of a repacked JPEG.
///
/// Faster than libjpeg because it knows where every tile begins: three are decoded at once, so that the processor works
/// on two while it waits for the table of the third; unneeded rows and ends of tiles are skipped; and a code with its
/// value costs one look-up. Unlike libjpeg, it detects tiles that do not end where their data ends.
class TileEntropyDecoder : public EntropyDecoder {
 public:
  /// Reads the data of some tiles, without the stuffed zeros. Returns false if the data holds a marker, which is
  /// damage, or if out of memory.
  [[nodiscard]] virtual bool read_tiles(std::span<const std::byte> file, const TileGrid& grid,
                                        const TileRange& range) = 0;

  /// Returns whether the tiles decoded since attach() held invalid codes.
  [[nodiscard]] virtual bool found_damage() const = 0;
};

/// Returns null if the program was built without trainer/data/jpeg/entropy.
[[nodiscard]] std::unique_ptr<TileEntropyDecoder> make_tile_entropy_decoder();

/// Returns an entropy decoder for ordinary JPEGs: one Huffman-coded sequential scan with all components, with or
/// without restarts. Returns null if the program was built without trainer/data/jpeg/entropy.
///
/// Faster than libjpeg because a code with its value costs one look-up, and because it only skips the codes that a crop
/// does not need, several with one look-up: rows above it and MCUs beside it.
///
/// Damage of which libjpeg would warn fails libjpeg's running call: data that ends too early, invalid codes, missing or
/// wrong restarts, extra data before a restart, or within a byte at the end.
[[nodiscard]] std::unique_ptr<EntropyDecoder> make_sequential_entropy_decoder();

/// Returns whether the scan that libjpeg read before the next marker ended correctly, its last byte filled with ones:
/// after flipped bits, the remaining data mostly begins within a byte. Returns false if libjpeg looks for a restart,
/// and if the end is unknown (arithmetic codes); true if one of our decoders, which check this themselves, has read the
/// scan.
[[nodiscard]] bool scan_ended_cleanly(const jpeg_decompress_struct& libjpeg);

/// Returns whether both decoders exist and give the pixels of the libjpeg that this program runs with. Tested once, on
/// pictures made for that, at the first call. Thread-safe.
[[nodiscard]] bool own_entropy_decoder_works();

}  // namespace rollcall::data

#pragma once

#include <cstddef>
#include <cstdio>
#include <memory>
#include <span>

#include <jpeglib.h>

namespace rollcall::data {

// The one way to trainer/data/jpeg/entropy, our own decoder of JPEG's Huffman-coded coefficients. It takes the place of
// a function in a structure that libjpeg keeps to itself (jpegint.h); nothing outside that folder sees it. All else
// stays libjpeg's: dequantisation, inverse DCT, upsampling, colour. So the pixels do too, and everything works without
// that folder (cmake -DROLLCALL_OWN_ENTROPY_DECODER=OFF), or where own_entropy_decoder_works() says no.
//
// What it buys: decoding a crop takes 0.7 of the CPU time that it takes with libjpeg's decoder for ordinary files (640
// of 900 microseconds), and 0.6 for repacked ones (430 of 740): original_crop against original_crop_libjpeg, own_crop
// against splice_crop of
//   build/release/benchmarks/data/decode_benchmark --benchmark_filter=_crop
// on its generated pictures of 500 x 375 pixels.

struct TileGrid;
struct TileRange;

/// From which column to which one, of pixels or MCUs, must be decoded for the pixels of a few to be right.
struct ColumnRange {
  int first = 0;
  int end = 0;
};

/// Takes the place of libjpeg's entropy decoder. Damage that is found fails libjpeg's running call.
class EntropyDecoder {
 public:
  EntropyDecoder() = default;
  EntropyDecoder(const EntropyDecoder&) = delete;
  EntropyDecoder& operator=(const EntropyDecoder&) = delete;
  virtual ~EntropyDecoder() = default;

  /// Called when libjpeg is ready to decode; `needed_mcus` are the MCUs of each row that libjpeg transforms, counted as
  /// they are coded. For a file that is not of its kind it leaves libjpeg's own decoder in place. `this` must outlive
  /// the decoding.
  virtual void attach(jpeg_decompress_struct& decompressor, ColumnRange needed_mcus) = 0;

  /// Reads on behind what was decoded, to the file's end, so that damage there fails as it does where all is wanted.
  virtual void read_to_end(jpeg_decompress_struct& decompressor) = 0;

  /// Whether the last attach() was for a file of the kind that this decodes.
  [[nodiscard]] virtual bool is_attached() const = 0;
};

/// For a repacked JPEG's tiles.
///
/// Faster than libjpeg because it knows where every tile begins: three are decoded at once, so that the processor works
/// on two while it waits for the third's table; rows and the ends of tiles that are not wanted are skipped; and a code
/// with its value costs one look-up. Tiles that do not end where their data ends are noticed, which libjpeg does not
/// do.
class TileEntropyDecoder : public EntropyDecoder {
 public:
  /// Takes the data of some tiles, without the stuffed zeros. False where it holds a marker, which is damage, or where
  /// there is no memory left.
  [[nodiscard]] virtual bool read_tiles(std::span<const std::byte> file, const TileGrid& grid,
                                        const TileRange& range) = 0;

  /// Whether the tiles decoded since attach() held something else than valid codes.
  [[nodiscard]] virtual bool found_damage() const = 0;
};

/// Null where the program was built without trainer/data/jpeg/entropy.
[[nodiscard]] std::unique_ptr<TileEntropyDecoder> make_tile_entropy_decoder();

/// For ordinary JPEGs: one Huffman-coded sequential scan with all components, with or without restarts. Null as above.
///
/// Faster than libjpeg because a code with its value costs one look-up, and because of what a crop does not need it
/// only follows the codes, several with one look-up: rows above it and MCUs beside it.
///
/// Damage that libjpeg would warn of fails libjpeg's running call: data that ends too early, codes that mean nothing,
/// missing or wrong restarts, data left over before a restart, or within a byte at the end.
[[nodiscard]] std::unique_ptr<EntropyDecoder> make_sequential_entropy_decoder();

/// Whether the scan that libjpeg read before the next marker ended as scans do, with its last byte filled up with ones:
/// flipped bits mostly leave data over that begins within a byte. False where libjpeg looks for a restart, and where
/// that cannot be told (arithmetic codes). True where a decoder from here has read the scan, which has looked itself.
[[nodiscard]] bool scan_ended_cleanly(const jpeg_decompress_struct& libjpeg);

/// Whether both are there and give libjpeg's pixels with the libjpeg that this program runs with: tried out once, on
/// pictures made for that, the first time it is asked. Thread-safe.
[[nodiscard]] bool own_entropy_decoder_works();

}  // namespace rollcall::data

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/packed_format.h"

namespace rollcall::pack {

/// What became of a file. The numbers are written into journals.
enum class Outcome : std::uint8_t {
  Kept = 0,      ///< its own bytes
  Repacked = 1,  ///< the same picture in tiles
  Resized = 2,   ///< smaller, encoded anew
  ResizedAndRepacked = 3,
  Bad = 4,  ///< cannot be used
};

/// By what a file is known to be the same as before.
struct SourceFacts {
  std::int64_t bytes = -1;
  std::int64_t modified_ns = 0;

  friend bool operator==(const SourceFacts&, const SourceFacts&) = default;
};

/// A file on its way into the packed file, or why it cannot be.
struct PreparedSample {
  Outcome outcome = Outcome::Bad;
  SourceFacts source;
  data::PackedEntry entry;               ///< all but the offset
  std::vector<std::byte> stored;         ///< picture and tile lengths
  std::string note;                      ///< Bad: why; Kept or Resized although repacking was asked for: why
  ErrorKind kind = ErrorKind::Internal;  ///< of Bad
};

/// What is done to every picture.
struct PrepareOptions {
  bool repack = false;  ///< into tiles, without loss, where that can be done
  int resize = 0;       ///< the shorter side has at most so many pixels afterwards; 0: as it is
  int quality = 92;     ///< of pictures that were resized
};

/// By what a file is known again; Bad facts (bytes < 0) where there is none.
[[nodiscard]] SourceFacts source_facts(const std::string& path);

/// Reads files and makes samples of them: one for each thread.
class Preparer {
 public:
  explicit Preparer(const PrepareOptions& options) : options_(options) {}

  /// Every picture is decoded whole, so that damage is found now and not in the third night of a training. A repacked
  /// one is decoded too, by its tiles and as other programs do it, and compared pixel by pixel; where a file cannot be
  /// repacked its own bytes are kept.
  [[nodiscard]] PreparedSample prepare(const std::string& path, std::int32_t label);

 private:
  [[nodiscard]] Result<data::PixelView> decode(data::ImageDecoder& decoder, const data::EncodedImage& file);
  [[nodiscard]] Result<void> resize_into(PreparedSample& sample, const data::PixelView& pixels);
  /// Whether a decoding gives these pixels of the picture; what it has more is filling.
  [[nodiscard]] bool gives(const data::PixelView& pixels, const data::EncodedImage& repacked);
  /// `pixels`: of the picture in sample.stored.
  void repack_into(PreparedSample& sample, const Result<data::PixelView>& pixels);

  PrepareOptions options_;
  data::ImageDecoder decoder_;
  data::ImageDecoder repacked_decoder_;
  data::FetchBuffer buffer_;
};

}  // namespace rollcall::pack

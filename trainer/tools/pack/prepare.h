#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/packed_format.h"

namespace rollcall::pack {

/// What was done with a file. The numbers are written into journals.
enum class Outcome : std::uint8_t {
  Kept = 0,      ///< stored with its own bytes
  Repacked = 1,  ///< stored as the same picture in tiles
  Resized = 2,   ///< made smaller and encoded again
  ResizedAndRepacked = 3,
  Bad = 4,  ///< cannot be used
};

/// The size and time by which an unchanged file is recognised.
struct SourceFacts {
  std::int64_t bytes = -1;
  std::int64_t modified_ns = 0;

  friend bool operator==(const SourceFacts&, const SourceFacts&) = default;
};

/// A file that is ready for the packed file, or the reason why it cannot be used.
struct PreparedSample {
  Outcome outcome = Outcome::Bad;
  SourceFacts source;
  data::PackedEntry entry;               ///< complete except for the offset
  std::vector<std::byte> stored;         ///< bytes of the picture and its tile lengths
  std::string note;                      ///< why the file is Bad, or Kept or Resized although repacking was requested
  ErrorKind kind = ErrorKind::Internal;  ///< kind of the error, if Bad
};

/// The options for preparing every picture.
struct PrepareOptions {
  bool repack = false;  ///< repack into tiles without loss, if possible
  int resize = 0;       ///< maximum number of pixels of the shorter side afterwards; 0: unlimited
  int quality = 92;     ///< JPEG quality of resized pictures
};

/// Returns the size and time of a file; bytes < 0 if it does not exist.
[[nodiscard]] SourceFacts source_facts(const std::string& path);

/// Reads files and makes samples of them. Use one per thread.
class Preparer {
 public:
  explicit Preparer(const PrepareOptions& options) : options_(options) {}

  /// Prepares one file. Every picture is decoded completely, so that damage is found now and not during a training. A
  /// repacked one is also decoded, by its tiles and as other programs do it, and compared pixel by pixel. A file that
  /// cannot be repacked keeps its own bytes.
  [[nodiscard]] PreparedSample prepare(const std::string& path, std::int32_t label);

 private:
  [[nodiscard]] Result<data::PixelView> decode(data::ImageDecoder& decoder, const data::EncodedImage& file);
  [[nodiscard]] Result<void> resize_into(PreparedSample& sample, const data::PixelView& pixels);
  /// Returns whether decoding `repacked` gives these pixels; its additional pixels are padding.
  [[nodiscard]] bool gives(const data::PixelView& pixels, const data::EncodedImage& repacked);
  /// `pixels` are those of the picture in sample.stored.
  void repack_into(PreparedSample& sample, const Result<data::PixelView>& pixels);

  PrepareOptions options_;
  data::ImageDecoder decoder_;
  data::ImageDecoder repacked_decoder_;
  data::FetchBuffer buffer_;
};

}  // namespace rollcall::pack

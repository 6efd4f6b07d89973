#pragma once

#include <string>

#include "trainer/data/image/decode.h"
#include "trainer/data/source.h"
#include "trainer/tools/pack/prepared_sample.h"

namespace rollcall::pack {

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

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/pixels.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/label_sets.h"
#include "trainer/data/transforms/uint8_image.h"

namespace rollcall::data {

/// The time spent in each stage of reading samples, summed over samples.
struct StageTimes {
  std::chrono::nanoseconds fetch{};    ///< reading bytes from the file or the page cache
  std::chrono::nanoseconds decode{};   ///< decoding the required pixels
  std::chrono::nanoseconds augment{};  ///< resize, flip, colour operations, normalisation
  std::int64_t samples = 0;

  StageTimes& operator+=(const StageTimes& other) {
    fetch += other.fetch;
    decode += other.decode;
    augment += other.augment;
    samples += other.samples;
    return *this;
  }
};

/// The buffers and decoder of one reading thread, reused for all samples so that a steady state allocates nothing.
struct Workspace {
  explicit Workspace(const DecodeOptions& options = {}) : decoder(options) {}

  FetchBuffer buffer;
  ImageDecoder decoder;
  AugmentScratch scratch;
  StageTimes times;
};

/// A map-style dataset of labelled pictures that are ready for the model. All members are thread-safe.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// Returns the number of samples.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns the name of each label.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  /// Returns the classes of each label, if images may have several; else null.
  [[nodiscard]] virtual const LabelSets* label_sets() const { return nullptr; }
  /// Returns the label of sample `index`, 0 ... class_names().size() - 1.
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;
  /// Reads sample `index` as augmented in `epoch` into `out`, normalised, in its size; the result depends on these
  /// alone. Returns the label, 0 ... class_names().size() - 1. Fails if the sample cannot be read or decoded; the
  /// content of `out` is then undefined. `workspace` belongs to the calling thread.
  [[nodiscard]] virtual Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                                  Workspace& workspace) const = 0;
  /// Returns the name of a sample for messages, such as its path.
  [[nodiscard]] virtual std::string describe(std::int64_t index) const = 0;
};

}  // namespace rollcall::data

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/image/image_decoder.h"
#include "trainer/data/pixels.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/transforms/levels.h"

namespace rollcall::data {

/// Where the time of reading samples went, summed up.
struct StageTimes {
  std::chrono::nanoseconds fetch{};    ///< bytes from the file or the page cache
  std::chrono::nanoseconds decode{};   ///< the wanted pixels of the picture
  std::chrono::nanoseconds augment{};  ///< resize, flip, colour, normalisation
  std::int64_t samples = 0;

  StageTimes& operator+=(const StageTimes& other) {
    fetch += other.fetch;
    decode += other.decode;
    augment += other.augment;
    samples += other.samples;
    return *this;
  }
};

/// What a thread needs to read samples, kept from one to the next so that a steady state allocates nothing.
struct Workspace {
  explicit Workspace(const DecodeOptions& options = {}) : decoder(options) {}

  FetchBuffer buffer;
  ImageDecoder decoder;
  AugmentScratch scratch;
  StageTimes times;
};

/// Pictures with labels, ready for the model. All members are thread-safe.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  /// Number of samples.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Name of each label.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  /// Reads sample `index` as it looks in `epoch` (augmentation is a function of both) into `out`, normalised. Gives the
  /// label, 0 ... class_names().size() - 1. Errors: the sample cannot be read or decoded; what `out` holds is then
  /// undefined. `workspace` belongs to the calling thread.
  [[nodiscard]] virtual Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                                  Workspace& workspace) const = 0;
  /// What to call a sample in messages: a path, say.
  [[nodiscard]] virtual std::string describe(std::int64_t index) const = 0;
};

}  // namespace rollcall::data

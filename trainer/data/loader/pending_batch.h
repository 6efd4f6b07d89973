#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/dataset.h"
#include "trainer/data/loader/batch.h"
#include "trainer/data/sampling/sampler.h"

namespace rollcall::data {

/// A batch whose samples are being read. Different samples may be read by different threads at the same time; all else
/// belongs to the thread that made it.
class PendingBatch {
 public:
  PendingBatch(std::int64_t step, std::vector<SampleRef> samples, int image_size);

  [[nodiscard]] std::size_t size() const { return samples_.size(); }
  /// Reads sample `i` into its slot; its outcome is kept until finish().
  void read(std::size_t i, const Dataset& dataset, std::uint64_t epoch, Workspace& workspace) noexcept;
  /// The first bad sample's Error, once all are read.
  [[nodiscard]] std::optional<Error> first_error() const;
  /// Replaces bad samples (see Loader), once all are read, and hands the tensors over. Error where none is good.
  [[nodiscard]] Result<Batch> finish();

 private:
  [[nodiscard]] std::span<float> slot(std::size_t i) const { return {pixels_ + i * slot_floats_, slot_floats_}; }
  [[nodiscard]] std::optional<std::size_t> next_good(std::size_t i) const;

  std::vector<SampleRef> samples_;
  std::vector<std::optional<Error>> errors_;
  Batch batch_;
  int image_size_;
  std::size_t slot_floats_;
  float* pixels_;         // batch_.images, which is channels-last: a slot is one sample's pixels
  std::int64_t* labels_;  // batch_.labels; both are raw so that worker threads touch no tensor
};

}  // namespace rollcall::data

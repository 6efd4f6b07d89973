#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/datasets/dataset.h"

namespace rollcall::data {

/// The Jülich recipe's fake data: labels of this many kinds, a model with so many outputs.
inline constexpr std::int64_t kFakeClasses = 10;
inline constexpr std::int64_t kFakeOutputs = 1000;

/// Standard normal pixels and a random label, both a function of (seed, sample number) alone: torchvision's FakeData
/// without its detour through 8-bit pictures. Costs no I/O.
class FakeDataset : public Dataset {
 public:
  /// `members`: the sample numbers that this data set has, in its order.
  FakeDataset(std::vector<std::int64_t> members, std::uint64_t seed);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(members_.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return class_names_; }
  [[nodiscard]] Result<std::int64_t> read(std::int64_t index, std::uint64_t epoch, const OutputPixels& out,
                                          Workspace& workspace) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  std::vector<std::int64_t> members_;
  std::vector<std::string> class_names_;
  std::uint64_t seed_;
};

}  // namespace rollcall::data

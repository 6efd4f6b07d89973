#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace rollcall::train {

/// What the images of one step of the optimizer are made up of.
struct StepSize {
  std::int64_t world_size = 1;
  std::int64_t batch_size = 1;    ///< images of one rank in one micro-batch
  std::int64_t accumulation = 1;  ///< micro-batches of one rank in a step

  /// Of all ranks.
  [[nodiscard]] std::int64_t images() const { return world_size * batch_size * accumulation; }
  friend bool operator==(const StepSize&, const StepSize&) = default;
};

/// How many micro-batches give a step of `images` with these ranks and this batch size; nothing where it does not
/// divide.
[[nodiscard]] std::optional<std::int64_t> accumulation_for(std::int64_t images, std::int64_t world_size,
                                                           std::int64_t batch_size);

/// The largest batch size up to `most` with which micro-batches of these ranks can make up a step of `images`; nothing
/// where the ranks do not divide it.
[[nodiscard]] std::optional<std::int64_t> batch_size_for(std::int64_t images, std::int64_t world_size,
                                                         std::int64_t most);

/// What people are told of a training that goes on with other steps than its checkpoint's. At most one is not empty.
struct StepSizeChange {
  std::string note;     ///< steps have as many images as before, made up otherwise
  std::string warning;  ///< they have not: how to keep them
};

/// `then`: of the checkpoint, its micro-batches counted as one. `asked`: images of a step that its user asked for, who
/// had others where the ranks did not divide them. `now.accumulation` was chosen by the user or suits
/// (accumulation_for()).
[[nodiscard]] StepSizeChange step_size_change(const StepSize& then, std::int64_t asked, const StepSize& now);

}  // namespace rollcall::train

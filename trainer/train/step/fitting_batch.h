#pragma once

#include <cstdint>
#include <optional>

#include "runtime/base/result.h"
#include "trainer/config/train_config.h"
#include "trainer/train/step/training.h"
#include "trainer/train/world.h"

namespace rollcall::train {

/// What a pass, forward and backward, took at most of a device's memory, with all else that was there: bytes.
struct MeasuredPass {
  std::int64_t images = 0;
  std::uint64_t peak = 0;
};

/// How many images a pass may have that is to take at most `limit` bytes, by the line through two passes of different
/// sizes; 0: not even one. Nothing: more images took no more memory. Pure.
[[nodiscard]] std::optional<std::int64_t> images_within(std::uint64_t limit, const MeasuredPass& small,
                                                        const MeasuredPass& large);

/// Memory of the device ran out in a pass over images of `shape` [images, channels, height, width], and all that the
/// pass had is let go of: `error`, whose action names the batch that would have fitted. It is found by passes of this
/// rank alone: an eighth and a quarter of the images (less where those do not fit), then as many as their line says, or
/// less. The training is over: BatchNorm's statistics are changed. `error` as it is where that cannot be found: a pass
/// is collective (FSDP, SyncBN), nothing fits, the allocator does not count. Main thread only.
[[nodiscard]] Error with_fitting_batch(Error error, Training& training, const config::TrainConfig& config,
                                       const World& world, at::IntArrayRef shape);

}  // namespace rollcall::train

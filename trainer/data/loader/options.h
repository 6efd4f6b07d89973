#pragma once

#include <c10/core/Device.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trainer/data/image/image_decoder.h"
#include "trainer/data/pixels.h"
#include "trainer/data/transforms/augment_options.h"

namespace rollcall::data {

/// What the loader does with a sample that cannot be read. Skip reports it and leaves it out. Fail ends the run.
/// SkipDamaged skips samples whose bytes are damaged, which all readers see alike, and fails on errors of the file
/// system.
enum class BadSamples { Skip, SkipDamaged, Fail };

/// Height and width of images that grow with the epochs, as in FFCV's ImageNet training: `smallest` up to epoch
/// `begin`, counted from 0, then linearly in multiples of 32, and the largest size from epoch `end` on.
struct ImageSizeSchedule {
  int smallest = 0;  ///< 0: the largest size from the beginning
  double begin = 0;
  double end = 0;

  [[nodiscard]] int size(std::uint64_t epoch, int largest) const;
};

struct LoaderOptions {
  int workers = 0;              ///< number of reading threads; 0: next() reads the samples itself
  int prefetch = 2;             ///< number of batches read ahead per worker; at least 1
  std::int64_t batch_size = 1;  ///< maximum number of samples of a batch: the sampler's batch size
  int image_size = 224;         ///< height and width of the model's input, the largest if they grow
  ImageSizeSchedule growth = {};
  PixelType pixel_type = PixelType::Float32;
  DecodeOptions decode = {};
  AugmentOptions mixing = {};                   ///< options of mixup and cutmix, which the loader does on whole batches
  std::uint64_t seed = 0;                       ///< seed of mixing
  bool pinned = false;                          ///< whether tensors are page-locked, for copies to a GPU
  c10::Device device = c10::kCPU;               ///< pinned: that GPU, the current device of threads that make tensors
  int room_size = 0;                            ///< pinned: make memory for images of this height, if it is larger
  std::vector<std::uint32_t> worker_cpus = {};  ///< CPUs of the workers; empty: those of the caller's thread
  int held = 0;                                 ///< batches that the caller holds besides the one that next() returned
  BadSamples bad_samples = BadSamples::Skip;

  /// Returns the number of batches that are read ahead: `prefetch` for each worker. Page-locked memory takes long to
  /// make and is not given back, so into that only as many as make 8 with those that others hold, unless batches are so
  /// small that more are needed for `prefetch` samples of each worker.
  [[nodiscard]] int batches_ahead() const {
    constexpr int kPinned = 8;
    const int all = std::max(1, workers * prefetch);
    const auto of_samples = static_cast<int>((all + batch_size - 1) / batch_size);
    return pinned ? std::min(all, std::max(kPinned - 1 - held, of_samples + 1)) : all;
  }
  /// Returns the number of batches that have memory: those, the one that next() returned, and `held`.
  [[nodiscard]] int batches_in_memory() const { return batches_ahead() + 1 + held; }
};

}  // namespace rollcall::data

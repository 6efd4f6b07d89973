#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/image/image_decoder.h"
#include "trainer/data/pixels.h"
#include "trainer/data/transforms/augment_options.h"

namespace rollcall::data {

/// What a sample that cannot be read does: it is named and left out, or it ends the run; with SkipDamaged the former
/// where its bytes are at fault, which are the same whoever reads them, and the latter where the file system is.
enum class BadSamples { Skip, SkipDamaged, Fail };

struct LoaderOptions {
  int workers = 0;              ///< threads that read samples; 0: next() reads them itself
  int prefetch = 2;             ///< batches read ahead, per worker; at least 1
  std::int64_t batch_size = 1;  ///< most samples of a batch: the sampler's batch size
  int image_size = 224;         ///< height and width of what the model sees
  PixelType pixel_type = PixelType::Float32;
  DecodeOptions decode = {};
  AugmentOptions mixing = {};                   ///< of which mixup and cutmix are done here, on whole batches
  std::uint64_t seed = 0;                       ///< of mixing
  bool pinned = false;                          ///< page-locked tensors, for copies to a GPU
  std::vector<std::uint32_t> worker_cpus = {};  ///< where workers run; empty: wherever the caller's thread may
  int held = 0;                                 ///< batches that the caller holds beside the one that next() gave
  BadSamples bad_samples = BadSamples::Skip;
};

}  // namespace rollcall::data

#pragma once

#include <cstdint>

#include "trainer/data/augment/options.h"
#include "trainer/data/image/decode.h"
#include "trainer/data/image/output_pixels.h"

namespace rollcall::data {

/// What a sample that cannot be read does: it is named and left out, or it ends the run.
enum class BadSamples { Skip, Fail };

struct LoaderOptions {
  int workers = 0;              ///< threads that read samples; 0: next() reads them itself
  int prefetch = 2;             ///< batches read ahead, per worker; at least 1
  std::int64_t batch_size = 1;  ///< most samples of a batch: the sampler's batch size
  int image_size = 224;         ///< height and width of what the model sees
  PixelType pixel_type = PixelType::Float32;
  DecodeOptions decode = {};
  AugmentOptions mixing = {};  ///< of which mixup and cutmix are done here, on whole batches
  std::uint64_t seed = 0;      ///< of mixing
  bool pinned = false;         ///< page-locked tensors, for copies to a GPU
  BadSamples bad_samples = BadSamples::Skip;
};

}  // namespace rollcall::data

#pragma once

#include <cstdint>
#include <vector>

#include "trainer/data/sampling/sampler.h"
#include "trainer/device/device.h"
#include "trainer/torch.h"

namespace rollcall::train {

/// Draws which parts of the model's activations the images of a batch keep, for ResNetImpl::forward(): bool [images,
/// rates.size()] on `device`; undefined without rates. The host does not wait for the device.
///
/// An image's draw is a function of the seed, the epoch and the image's position in it. So it is the same on any number
/// of ranks, and after a resume.
[[nodiscard]] at::Tensor draw_kept(const std::vector<double>& rates, const data::Sampler& sampler, std::int64_t batch,
                                   std::int64_t images, const device::Device& device);

}  // namespace rollcall::train

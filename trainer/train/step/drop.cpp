#include "trainer/train/step/drop.h"

#include <cmath>

#include "trainer/data/sampling/random.h"

namespace rollcall::train {

at::Tensor draw_kept(const std::vector<double>& rates, const data::Sampler& sampler, std::int64_t batch,
                     std::int64_t images, const device::Device& device) {
  if (rates.empty()) {
    return {};
  }
  const at::Tensor kept = torch::empty({images, static_cast<std::int64_t>(rates.size())},
                                       at::TensorOptions(at::kBool).pinned_memory(device.type() != at::kCPU));
  bool* next = kept.mutable_data_ptr<bool>();
  for (std::int64_t i = 0; i < images; ++i) {
    const auto position = static_cast<std::uint64_t>(sampler.position(batch, i));
    data::Random random(sampler.options().seed, data::Purpose::Drop, sampler.epoch(), position);
    for (const double rate : rates) {
      *next++ = random.bits() >= std::ldexp(rate, 32);
    }
  }
  return kept.to(device.device(), /*non_blocking=*/true);
}

}  // namespace rollcall::train

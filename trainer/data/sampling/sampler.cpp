#include "trainer/data/sampling/sampler.h"

#include <algorithm>
#include <cassert>

#include "trainer/data/sampling/epoch_order.h"

namespace rollcall::data {

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  assert(options.dataset_size >= 0 && options.batch_size >= 1 && options.world_size >= 1);
  assert(options.rank >= 0 && options.rank < options.world_size);
  assert(!(options.drop_last && options.pad));
}

void Sampler::set_epoch(std::uint64_t epoch, std::int64_t start_position) {
  assert(start_position >= 0 && start_position <= options_.dataset_size);
  epoch_ = epoch;
  start_position_ = start_position;
}

std::int64_t Sampler::steps() const {
  const std::int64_t left = options_.dataset_size - start_position_;
  const std::int64_t full = left / global_batch_size();
  const bool rest = left % global_batch_size() != 0;
  return rest && !options_.drop_last ? full + 1 : full;
}

std::vector<SampleRef> Sampler::batch(std::int64_t step) const {
  assert(step >= 0 && step < steps());
  const std::int64_t size = options_.dataset_size;
  const std::int64_t first = first_position(step);
  const std::int64_t last = first + options_.batch_size;
  EpochOrder order({size, options_.seed, options_.shuffle, options_.window}, epoch_);
  std::vector<SampleRef> samples;
  for (std::int64_t position = first; position < (options_.pad ? last : std::min(last, size)); ++position) {
    const std::int64_t wrapped = position % size;
    samples.push_back({order(wrapped), position < size});
  }
  return samples;
}

std::int64_t Sampler::first_position(std::int64_t step) const {
  return start_position_ + step * global_batch_size() + options_.rank * options_.batch_size;
}

std::int64_t Sampler::position_after(std::int64_t steps) const {
  return std::min(options_.dataset_size, start_position_ + steps * global_batch_size());
}

}  // namespace rollcall::data

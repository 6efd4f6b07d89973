#include "trainer/data/sampling/sampler.h"

#include <algorithm>
#include <cassert>

#include "trainer/data/sampling/epoch_order.h"

namespace rollcall::data {
namespace {

std::int64_t round_up(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  assert(options.dataset_size >= 0 && options.batch_size >= 1 && options.accumulation >= 1);
  assert(options.world_size >= 1);
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
  return options_.drop_last ? left / of_step() : round_up(left, of_step());
}

std::int64_t Sampler::batches() const {
  const bool whole_steps = options_.drop_last || options_.pad;
  return whole_steps ? steps() * options_.accumulation : round_up(options_.dataset_size - start_position_, of_batch());
}

std::vector<SampleRef> Sampler::batch(std::int64_t batch) const {
  assert(batch >= 0 && batch < batches());
  const std::int64_t size = options_.dataset_size;
  const std::int64_t first = first_position(batch);
  const std::int64_t last = first + options_.batch_size;
  EpochOrder order({size, options_.seed, options_.shuffle, options_.window}, epoch_);
  std::vector<SampleRef> samples;
  for (std::int64_t position = first; position < (options_.pad ? last : std::min(last, size)); ++position) {
    const std::int64_t wrapped = position % size;
    samples.push_back({order(wrapped), position < size});
  }
  return samples;
}

std::int64_t Sampler::first_position(std::int64_t batch) const {
  return start_position_ + batch * of_batch() + options_.rank * options_.batch_size;
}

std::int64_t Sampler::position_after(std::int64_t steps) const {
  return std::min(options_.dataset_size, start_position_ + steps * of_step());
}

}  // namespace rollcall::data

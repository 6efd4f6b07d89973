#include "trainer/data/sampling/sampler.h"

#include <algorithm>
#include <array>
#include <cassert>

#include "trainer/data/sampling/random.h"

namespace rollcall::data {
namespace {

std::int64_t whole_windows(const EpochOrderOptions& options) {
  return options.shuffle && options.window > 0 ? options.size / options.window : 0;
}

}  // namespace

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch, Purpose purpose) : size_(size) {
  while ((std::uint64_t{1} << (2 * half_bits_)) < static_cast<std::uint64_t>(size)) {
    ++half_bits_;
  }
  Random random(seed, purpose, epoch, 0);
  for (std::uint64_t& key : round_keys_) {
    key = std::uint64_t{random.bits()} << 32;
    key |= random.bits();
  }
}

std::uint64_t Permutation::feistel(std::uint64_t number) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = number >> half_bits_;
  std::uint64_t right = number & mask;
  for (const std::uint64_t key : round_keys_) {
    const std::uint64_t mixed = left ^ (splitmix64(right ^ key) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  assert(position >= 0 && position < size_);
  // The network permutes a power of four >= size; following it until it re-enters the range keeps it a permutation.
  auto number = static_cast<std::uint64_t>(position);
  do {
    number = feistel(number);
  } while (number >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(number);
}

Split split_85_10_5(std::int64_t size, std::uint64_t seed) {
  std::array<std::int64_t, 3> sizes{size * 85 / 100, size * 10 / 100, size * 5 / 100};
  const std::int64_t left_over = size - sizes[0] - sizes[1] - sizes[2];
  for (std::int64_t i = 0; i < left_over; ++i) {
    ++sizes[static_cast<std::size_t>(i) % sizes.size()];
  }
  const Permutation order(size, seed, 0, Purpose::Split);
  Split split;
  std::int64_t position = 0;
  const auto take = [&](std::int64_t count, std::vector<std::int64_t>& members) {
    for (const std::int64_t end = position + count; position < end; ++position) {
      members.push_back(order(position));
    }
  };
  take(sizes[0], split.train);
  take(sizes[1], split.valid);
  take(sizes[2], split.test);
  return split;
}

EpochOrder::EpochOrder(const EpochOrderOptions& options, std::uint64_t epoch)
    : options_(options),
      epoch_(epoch),
      whole_windows_(whole_windows(options)),
      rest_(options.size - whole_windows_ * options.window),
      order_(whole_windows_ > 0 ? whole_windows_ : options.size, options.seed, epoch),
      rest_order_(rest_, splitmix64(options.seed), epoch, Purpose::Window),
      group_order_(0, options.seed, epoch, Purpose::Window) {
  assert(options.size >= 0 && options.window >= 0);
  if (whole_windows_ > 0) {
    Random random(options.seed, Purpose::Window, epoch, 0);
    const auto places = static_cast<double>(options.size - rest_ + 1);
    rest_position_ = static_cast<std::int64_t>(random.uniform() * places);
  }
}

std::int64_t EpochOrder::operator()(std::int64_t position) {
  assert(position >= 0 && position < options_.size);
  if (!options_.shuffle) {
    return position;
  }
  return whole_windows_ > 0 ? windowed(position) : order_(position);
}

std::int64_t EpochOrder::windowed(std::int64_t position) {
  if (position >= rest_position_ && position < rest_position_ + rest_) {
    return whole_windows_ * options_.window + rest_order_(position - rest_position_);
  }
  const std::int64_t among_whole = position < rest_position_ ? position : position - rest_;
  const std::int64_t group_size = kMixedWindows * options_.window;
  const std::int64_t group = among_whole / group_size;
  if (group != group_) {
    const std::int64_t windows = std::min(kMixedWindows, whole_windows_ - group * kMixedWindows);
    group_order_ =
        Permutation(windows * options_.window, splitmix64(options_.seed + static_cast<std::uint64_t>(group) + 1),
                    epoch_, Purpose::Window);
    group_ = group;
  }
  const std::int64_t in_group = group_order_(among_whole - group * group_size);
  const std::int64_t window = order_(group * kMixedWindows + in_group / options_.window);
  return window * options_.window + in_group % options_.window;
}

namespace {

std::int64_t round_up(std::int64_t whole, std::int64_t part) { return (whole + part - 1) / part; }

}  // namespace

Sampler::Sampler(const SamplerOptions& options) : options_(options) {
  assert(options.dataset_size >= 0 && options.batch_size >= 1 && options.accumulation >= 1);
  assert(options.world_size >= 1 && options.repetitions >= 1);
  assert(options.rank >= 0 && options.rank < options.world_size);
  assert(options.ranks >= 0 && options.ranks <= options.world_size - options.rank);
  assert(options.ranks == 1 || options.drop_last || options.pad);
  assert(!(options.drop_last && options.pad));
}

void Sampler::set_epoch(std::uint64_t epoch, std::int64_t start_position) {
  assert(start_position >= 0 && start_position <= options_.dataset_size);
  epoch_ = epoch;
  start_position_ = start_position;
}

std::int64_t Sampler::steps() const {
  const std::int64_t left = options_.dataset_size - start_position_;
  return options_.drop_last ? left / positions_per_step() : round_up(left, positions_per_step());
}

std::int64_t Sampler::batches() const {
  const bool whole_steps = options_.drop_last || options_.pad;
  return whole_steps ? steps() * options_.accumulation * options_.ranks
                     : round_up(options_.dataset_size - start_position_, positions_per_batch());
}

std::vector<SampleRef> Sampler::batch(std::int64_t batch) const {
  assert(batch >= 0 && batch < batches());
  const std::int64_t size = options_.dataset_size;
  const std::int64_t first = first_position(batch);
  const std::int64_t last = first + options_.batch_size * stride();
  EpochOrder order({size, options_.seed, options_.shuffle, options_.window}, epoch_);
  std::vector<SampleRef> samples;
  for (std::int64_t position = first; position < (options_.pad ? last : std::min(last, size)); position += stride()) {
    const std::int64_t wrapped = position % size;
    const std::int64_t place = wrapped / options_.repetitions;
    samples.push_back(options_.balanced ? SampleRef{balanced_sample(place), position < size, wrapped}
                                        : SampleRef{order(place), position < size, wrapped % options_.repetitions});
  }
  return samples;
}

std::int64_t Sampler::balanced_sample(std::int64_t position) const {
  Random random(options_.seed, Purpose::Balance, epoch_, static_cast<std::uint64_t>(position));
  const auto& of_class = (*options_.balanced)[random.below(static_cast<std::uint32_t>(options_.balanced->size()))];
  return of_class[random.below(static_cast<std::uint32_t>(of_class.size()))];
}

std::int64_t Sampler::first_position(std::int64_t batch) const {
  const std::int64_t in_step = batch % (options_.accumulation * options_.ranks);
  const std::int64_t step = batch / (options_.accumulation * options_.ranks);
  const std::int64_t micro_batch = step * options_.accumulation + in_step % options_.accumulation;
  const std::int64_t rank = options_.rank + in_step / options_.accumulation;
  return start_position_ + micro_batch * positions_per_batch() +
         rank * (options_.repetitions > 1 ? 1 : options_.batch_size);
}

std::int64_t Sampler::position_after(std::int64_t steps) const {
  return std::min(options_.dataset_size, start_position_ + steps * positions_per_step());
}

}  // namespace rollcall::data

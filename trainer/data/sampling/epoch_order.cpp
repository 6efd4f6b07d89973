#include "trainer/data/sampling/epoch_order.h"

#include <algorithm>
#include <cassert>

#include "trainer/data/sampling/mix.h"
#include "trainer/data/sampling/random.h"

namespace rollcall::data {
namespace {

std::int64_t whole_windows(const EpochOrderOptions& options) {
  return options.shuffle && options.window > 0 ? options.size / options.window : 0;
}

}  // namespace

EpochOrder::EpochOrder(const EpochOrderOptions& options, std::uint64_t epoch)
    : options_(options),
      epoch_(epoch),
      whole_windows_(whole_windows(options)),
      rest_(options.size - whole_windows_ * options.window),
      order_(whole_windows_ > 0 ? whole_windows_ : options.size, options.seed, epoch),
      rest_order_(rest_, mix(options.seed), epoch, Purpose::Window),
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
    group_order_ = Permutation(windows * options_.window, mix(options_.seed + static_cast<std::uint64_t>(group) + 1),
                               epoch_, Purpose::Window);
    group_ = group;
  }
  const std::int64_t in_group = group_order_(among_whole - group * group_size);
  const std::int64_t window = order_(group * kMixedWindows + in_group / options_.window);
  return window * options_.window + in_group % options_.window;
}

}  // namespace rollcall::data

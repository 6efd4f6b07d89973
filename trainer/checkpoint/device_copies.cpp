#include "trainer/checkpoint/device_copies.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>

#include "trainer/streams.h"

namespace rollcall::checkpoint {
namespace {

/// Whether the tensor's elements are adjacent in memory, in any order.
bool is_dense(const at::Tensor& rows) { return rows.is_non_overlapping_and_dense(); }

at::Tensor in_order_of_memory(const at::Tensor& rows) { return rows.as_strided({rows.numel()}, {1}); }

bool is_small(const at::Tensor& rows) {
  constexpr std::size_t kMostBytes = 64 << 10;
  return rows.nbytes() <= kMostBytes && is_dense(rows);
}

at::Tensor pinned_like(const at::Tensor& rows) {
  const at::TensorOptions options = rows.options().device(at::kCPU).pinned_memory(true);
  return is_dense(rows) ? at::empty_strided(rows.sizes(), rows.strides(), options) : at::empty(rows.sizes(), options);
}

/// Whether `host` is what pinned_like(rows) returns.
bool fits(const at::Tensor& host, const at::Tensor& rows) {
  return host.scalar_type() == rows.scalar_type() && host.sizes() == rows.sizes() &&
         (is_dense(rows) ? host.strides() == rows.strides() : host.is_contiguous());
}

}  // namespace

DeviceCopies::Streams::Streams(c10::Device of_device)
    : device(of_device), beside(new_stream(device)), copied_in_order(device.type()), copied(device.type()) {}

bool DeviceCopies::has_room(const std::vector<Source>& sources) const {
  return std::ranges::equal(sources, places_, [](const Source& source, const Place& place) {
    return source.changes_at_once == place.changes_at_once && fits(place.host, source.rows);
  });
}

DeviceCopies::Place DeviceCopies::place_in_pack(const Source& source) {
  auto pack = std::ranges::find_if(packs_, [&](const Pack& other) {
    return other.type == source.rows.scalar_type() && other.changes_at_once == source.changes_at_once;
  });
  if (pack == packs_.end()) {
    pack = packs_.insert(pack, {.type = source.rows.scalar_type(), .changes_at_once = source.changes_at_once});
  }
  const std::int64_t first = pack->elements;
  pack->elements += source.rows.numel();
  return {.changes_at_once = source.changes_at_once,
          .pack = static_cast<std::size_t>(pack - packs_.begin()),
          .first_element = first};
}

void DeviceCopies::make_room(const std::vector<Source>& sources) {
  if (sources.empty() || has_room(sources)) {
    return;
  }
  if (!streams_) {
    streams_.emplace(sources.front().rows.device());
  }
  places_.clear();  // first, as LibTorch keeps page-locked memory for the next request of its size
  packs_.clear();
  for (const Source& source : sources) {
    places_.push_back(is_small(source.rows)
                          ? place_in_pack(source)
                          : Place{.host = pinned_like(source.rows), .changes_at_once = source.changes_at_once});
  }
  for (Pack& pack : packs_) {
    const at::TensorOptions options(pack.type);
    const c10::OptionalStreamGuard guard(pack.changes_at_once ? std::nullopt : std::optional(streams_->beside));
    pack.on_device = at::empty({pack.elements}, options.device(streams_->device));
    pack.on_host = at::empty({pack.elements}, options.pinned_memory(true));
  }
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (const Place& place = places_[i]; place.pack) {
      const at::Tensor& rows = sources[i].rows;
      places_[i].host = packs_[*place.pack].on_host.as_strided(rows.sizes(), rows.strides(), place.first_element);
    }
  }
}

/// Copies the sources that change at once, or the others, on the current stream.
void DeviceCopies::copy_some(const std::vector<Source>& sources, bool changes_at_once) {
  std::vector<std::vector<at::Tensor>> in_packs(packs_.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    Place& place = places_[i];
    if (place.pack) {
      in_packs[*place.pack].push_back(in_order_of_memory(sources[i].rows));
    } else if (place.changes_at_once == changes_at_once) {
      place.host.copy_(sources[i].rows, /*non_blocking=*/true);
    }
  }
  for (std::size_t i = 0; i < packs_.size(); ++i) {
    if (Pack& pack = packs_[i]; pack.changes_at_once == changes_at_once) {
      at::cat_out(pack.on_device, in_packs[i]);
      pack.on_host.copy_(pack.on_device, /*non_blocking=*/true);
    }
  }
}

std::vector<at::Tensor> DeviceCopies::copy(const std::vector<Source>& sources) {
  if (sources.empty()) {
    return {};
  }
  const torch::NoGradGuard no_grad;
  make_room(sources);
  const c10::Stream computing = current_stream(streams_->device);
  copy_some(sources, /*changes_at_once=*/true);
  streams_->copied_in_order.record(computing);
  streams_->copied_in_order.block(streams_->beside);  // the others were computed before
  {
    const c10::StreamGuard guard(streams_->beside);
    copy_some(sources, /*changes_at_once=*/false);
    streams_->copied.record(streams_->beside);
  }
  std::vector<at::Tensor> hosts;
  std::ranges::transform(places_, std::back_inserter(hosts), &Place::host);
  return hosts;
}

void DeviceCopies::block_compute_stream() {
  if (streams_) {
    streams_->copied.block(current_stream(streams_->device));
  }
}

void DeviceCopies::wait() {
  if (streams_) {
    // A driver makes something of a hundred megabytes on the calling thread's device, whatever device an event is of.
    const c10::DeviceGuard guard(streams_->device);
    streams_->copied.synchronize();
  }
}

}  // namespace rollcall::checkpoint

// What a group does with gradients: from the whole parameters' to the shards'.
#include <algorithm>
#include <iterator>
#include <utility>

#include "trainer/distributed/fsdp/parameter_group.h"

namespace rollcall::parallel::fsdp {
namespace {

/// `mean` becomes the sum of the rows of `received` over `ranks`. On CPUs piece by piece, so that a piece is still in
/// the cache of the core that added it up when it is divided.
void take_mean(const at::Tensor& mean, const at::Tensor& received, double ranks) {
  constexpr std::int64_t kElementsOfACore = 32768;  // also the least that LibTorch gives a thread
  const std::int64_t most = mean.is_cpu() ? kElementsOfACore * at::get_num_threads() : mean.numel();
  for (std::int64_t begin = 0; begin < mean.numel(); begin += most) {
    const std::int64_t numel = std::min(most, mean.numel() - begin);
    at::Tensor piece = mean.narrow(0, begin, numel);
    Communicator::add_up(piece, received.narrow(1, begin, numel));
    piece.div_(ranks);
  }
}

}  // namespace

/// Those who take gradients come first, in the group and in a bundle.
ParameterGroup::Span ParameterGroup::reduced_span(const Bundle& bundle) const {
  const std::int64_t begin = slots_[bundle.first].offset;
  const std::size_t end = std::min(bundle.first + bundle.count, trainable_);
  return {begin, (end == trainable_ ? reduce_numel_ : slots_[end].offset) - begin};
}

std::vector<Bundle> ParameterGroup::trainable_bundles() const {
  std::vector<Bundle> bundles;
  std::copy_if(bundles_.begin(), bundles_.end(), std::back_inserter(bundles),
               [this](const Bundle& bundle) { return bundle.first < trainable_; });
  return bundles;
}

at::Tensor ParameterGroup::take_gradient(Slot& slot) const {
  at::Tensor gradient = std::move(slot.whole.mutable_grad());
  slot.whole.mutable_grad().reset();
  if (gradient.defined()) {
    gradient = gradient.detach().to(reduce_type());
    if (!same_layout(gradient, slot.whole)) {
      gradient = at::empty_strided(slot.whole.sizes(), slot.whole.strides(), gradient.options()).copy_(gradient);
    }
  }
  if (!slot.accumulated.defined()) {
    return gradient;
  }
  const at::Tensor before = std::exchange(slot.accumulated, at::Tensor());
  return gradient.defined() ? before.add_(gradient) : before;
}

/// Zeros where no rank has anything: in the rows that pad a tensor, and for a gradient that the loss does not depend
/// on.
void ParameterGroup::copy_in(const Slot& slot, const at::Tensor& gradient, const at::Tensor& parts,
                             const Span& span) const {
  const auto element = static_cast<std::int64_t>(parts.element_size());
  std::vector<Piece> pieces;
  for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
    const Piece piece{.to = (rank * span.size + slot.offset - span.begin) * element,
                      .from = slot.rows.offset_of(rank) * element,
                      .bytes = gradient.defined() ? slot.rows.numel_of(rank) * element : 0};
    pieces.push_back(piece);
    set_zero(parts, piece.to + piece.bytes, slot.rows.padded_numel() * element - piece.bytes);
  }
  if (gradient.defined()) {
    copy_pieces(parts, gradient, pieces);
  }
}

/// Room for every rank's part of `numel` gradients.
at::Tensor ParameterGroup::exchange_memory(std::int64_t numel) const {
  const auto element = static_cast<std::int64_t>(c10::elementSize(reduce_type()));
  return memory_.take(communicator_.size() * numel * element).view(reduce_type()).view({communicator_.size(), numel});
}

/// The gradients of a bundle as they travel, taken from the whole parameters.
at::Tensor ParameterGroup::parts_of(const Bundle& bundle) {
  if (bundle.in_place) {
    if (const at::Tensor gradient = take_gradient(slots_[bundle.first]); gradient.defined()) {
      return in_memory_order(gradient);
    }
  }
  const Span span = reduced_span(bundle);
  const at::Tensor parts = exchange_memory(span.size);
  for (std::size_t i = bundle.first; i < std::min(bundle.first + bundle.count, trainable_); ++i) {
    copy_in(slots_[i], take_gradient(slots_[i]), parts, span);
  }
  return parts;
}

ParameterGroup::Reduction ParameterGroup::start_reduction() {
  const torch::NoGradGuard no_grad;
  Reduction reduction;
  for (const Bundle& bundle : trainable_bundles()) {
    reduction.parts.push_back(parts_of(bundle));
    reduction.received.push_back(exchange_memory(reduced_span(bundle).size));
  }
  reduction.pending = communicator_.exchange(reduction.received, reduction.parts);
  return reduction;
}

/// What a reduction that came to its end makes of the gradients, in `memory`.
at::Tensor ParameterGroup::mean_of(const Reduction& reduction, const at::Tensor& memory) {
  at::Tensor mean = memory;
  const auto ranks = static_cast<double>(communicator_.size() * communicator_.replicas());
  const std::vector<Bundle> bundles = trainable_bundles();
  for (std::size_t i = 0; i < bundles.size(); ++i) {
    const Span span = reduced_span(bundles[i]);
    take_mean(mean.narrow(0, span.begin, span.size), reduction.received[i], ranks);
  }
  communicator_.add_replicas(mean);
  return mean;
}

void ParameterGroup::finish(Reduction& reduction) {
  const torch::NoGradGuard no_grad;
  reduction.pending.wait();
  const bool adds = has_gradients();
  const at::TensorOptions here = at::TensorOptions(flat_.scalar_type()).device(memory_.device());
  const at::Tensor mean =
      mean_of(reduction, adds || host_link_ != nullptr ? at::empty({reduce_numel_}, here) : flat_gradient_);
  if (adds) {
    return add_gradients(mean);
  }
  if (host_link_ != nullptr) {
    host_link_->download(flat_gradient_, mean);
  }
  for (std::size_t i = 0; i < trainable_; ++i) {
    shards_[i].mutable_grad() = gradient_memory(slots_[i]);
  }
}

bool ParameterGroup::has_gradients() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const at::Tensor& shard) { return shard.grad().defined(); });
}

at::Tensor ParameterGroup::gradient_memory(const Slot& slot) const {
  // data(): zero_grad() of an optimizer would refuse what autograd takes for a view.
  return part_of(flat_gradient_, slot).data();
}

void ParameterGroup::add_gradients(const at::Tensor& mean) {
  const at::Tensor more = host_link_ != nullptr ? host_link_->downloaded(mean) : mean;
  for (std::size_t i = 0; i < trainable_; ++i) {
    const at::Tensor part = part_of(more, slots_[i]);
    at::Tensor& gradient = shards_[i].mutable_grad();
    gradient = gradient.defined() ? gradient.add_(part) : gradient_memory(slots_[i]).copy_(part);
  }
}

void ParameterGroup::accumulate() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < trainable_; ++i) {
    slots_[i].accumulated = take_gradient(slots_[i]);
  }
}

void ParameterGroup::zero_grad() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    slots_[i].whole.mutable_grad().reset();
    slots_[i].accumulated.reset();
    shards_[i].mutable_grad().reset();
  }
}

}  // namespace rollcall::parallel::fsdp

#include "trainer/distributed/fsdp/group_gradients.h"

#include <algorithm>
#include <utility>

#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/streams.h"

namespace rollcall::parallel::fsdp {
namespace {

/// Sets `mean` to the sum of the rows of `received` divided by `ranks`. On CPUs it works piece by piece, so that a
/// piece is still in the core's cache when it is divided.
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

GroupGradients::GroupGradients(const GroupContext& context, const GroupLayout& layout, std::vector<at::Tensor>& shards,
                               const at::TensorOptions& home)
    : communicator_(context.communicator),
      memory_(context.memory),
      host_link_(context.host_link),
      stream_(context.reductions),
      options_(context.options),
      layout_(layout),
      shards_(shards),
      flat_(at::empty({layout.reduce_numel}, home)),
      accumulated_(layout.slots.size()) {}

at::ScalarType GroupGradients::reduce_type() const { return options_.reduce_type.value_or(flat_.scalar_type()); }

at::Tensor GroupGradients::take(std::size_t slot) {
  const at::Tensor& unsharded = layout_.slots[slot].unsharded;
  at::Tensor gradient = std::move(unsharded.mutable_grad());
  unsharded.mutable_grad().reset();
  if (gradient.defined()) {
    gradient = gradient.detach();
    if (!same_layout(gradient, unsharded)) {
      gradient = at::empty_strided(unsharded.sizes(), unsharded.strides(), gradient.options()).copy_(gradient);
    }
  }
  if (!accumulated_[slot].defined()) {
    return gradient;
  }
  const at::Tensor before = std::exchange(accumulated_[slot], at::Tensor());
  return gradient.defined() ? before.add_(gradient) : before;
}

/// Writes zeros where there is no gradient: in the rows that pad a tensor, and for a parameter on which the loss does
/// not depend.
void GroupGradients::copy_in(const Slot& slot, const at::Tensor& gradient, const at::Tensor& parts,
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

/// Returns whether the backend adds up. Not on CPUs, where the order of additions is the same for all backends. A
/// device's backend adds in the type that is sent, so not if a shorter type was chosen for sending.
bool GroupGradients::backend_adds() const { return !memory_.device().is_cpu() && reduce_type() == flat_.scalar_type(); }

/// Allocates memory for every rank's part of `numel` gradients.
at::Tensor GroupGradients::all_to_all_memory(std::int64_t numel) const {
  const auto element = static_cast<std::int64_t>(c10::elementSize(reduce_type()));
  return memory_.take(communicator_.size() * numel * element).view(reduce_type()).view({communicator_.size(), numel});
}

/// Returns the gradients of a message as they are sent, moved out of `gradients`.
at::Tensor GroupGradients::parts_of(const Coalesced& message, std::vector<at::Tensor>& gradients) const {
  const auto to_send = [&](std::size_t slot) {
    const at::Tensor gradient = std::move(gradients[slot]);
    return gradient.defined() ? gradient.to(reduce_type()) : gradient;
  };
  if (message.in_place) {
    if (const at::Tensor gradient = to_send(message.first); gradient.defined()) {
      return in_memory_order(gradient);
    }
  }
  const Span span = layout_.reduced_span(message);
  at::Tensor parts = all_to_all_memory(span.size);
  for (std::size_t i = message.first; i < std::min(message.first + message.count, layout_.trainable); ++i) {
    copy_in(layout_.slots[i], to_send(i), parts, span);
  }
  return parts;
}

/// Starts the collectives for `gradients`, which are by slot.
void GroupGradients::send(Reduction& reduction, std::vector<at::Tensor> gradients) {
  if (backend_adds()) {
    reduction.sum = mean_memory();
  }
  for (const Coalesced& message : layout_.trainable_messages()) {
    const Span span = layout_.reduced_span(message);
    reduction.parts.push_back(parts_of(message, gradients));
    reduction.received.push_back(reduction.sum.defined() ? reduction.sum.narrow(0, span.begin, span.size)
                                                         : all_to_all_memory(span.size));
  }
  reduction.pending = reduction.sum.defined() ? communicator_.reduce_scatter(reduction.received, reduction.parts)
                                              : communicator_.all_to_all(reduction.received, reduction.parts);
}

GroupGradients::Reduction GroupGradients::start() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 0; i < layout_.trainable; ++i) {
    gradients.push_back(take(i));
  }
  if (stream_) {
    return reduce_beside(std::move(gradients));
  }
  Reduction reduction;
  send(reduction, std::move(gradients));
  return reduction;
}

/// Enqueues the whole reduction on its stream.
GroupGradients::Reduction GroupGradients::reduce_beside(std::vector<at::Tensor> gradients) {
  Reduction whole;
  Reduction rest;  // what other threads and streams have to wait for
  rest.sent = run_on_stream(*stream_, [&] {
    send(whole, gradients);
    whole.pending.wait();
  });
  rest.gradients = std::move(gradients);
  const c10::StreamGuard beside(*stream_);
  give_to_shards(whole);
  return rest;
}

void GroupGradients::finish(Reduction& reduction) {
  const torch::NoGradGuard no_grad;
  if (reduction.sent) {
    reduction.sent->block(current_stream(memory_.device()));
    return;
  }
  reduction.pending.wait();
  give_to_shards(reduction);
}

/// Allocates the memory of the mean.
at::Tensor GroupGradients::mean_memory() const {
  const bool elsewhere = any() || host_link_ != nullptr;
  return elsewhere ? at::empty({layout_.reduce_numel}, at::TensorOptions(flat_.scalar_type()).device(memory_.device()))
                   : flat_;
}

/// Computes the mean of the gradients after a reduction.
at::Tensor GroupGradients::mean_of(const Reduction& reduction) {
  const auto ranks = static_cast<double>(communicator_.size() * communicator_.replicas());
  at::Tensor mean = reduction.sum;
  if (mean.defined()) {
    mean.div_(ranks);
  } else {
    mean = mean_memory();
    const std::vector<Coalesced> messages = layout_.trainable_messages();
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const Span span = layout_.reduced_span(messages[i]);
      take_mean(mean.narrow(0, span.begin, span.size), reduction.received[i], ranks);
    }
  }
  communicator_.add_replicas(mean);
  return mean;
}

void GroupGradients::give_to_shards(const Reduction& reduction) {
  const bool adds = any();
  const at::Tensor mean = mean_of(reduction);
  if (adds) {
    return add(mean);
  }
  if (host_link_ != nullptr) {
    host_link_->download(flat_, mean);
  }
  for (std::size_t i = 0; i < layout_.trainable; ++i) {
    shards_[i].mutable_grad() = shard_memory(layout_.slots[i]);
  }
}

bool GroupGradients::any() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const at::Tensor& shard) { return shard.grad().defined(); });
}

at::Tensor GroupGradients::part_of(const at::Tensor& flat, const Slot& slot) const {
  return shard_view(flat, slot.unsharded, slot.rows, communicator_.rank(), slot.offset);
}

at::Tensor GroupGradients::shard_memory(const Slot& slot) const {
  // data(): an optimizer's zero_grad() refuses tensors that autograd takes for views.
  return part_of(flat_, slot).data();
}

void GroupGradients::add(const at::Tensor& mean) {
  const at::Tensor more = host_link_ != nullptr ? host_link_->downloaded(mean) : mean;
  for (std::size_t i = 0; i < layout_.trainable; ++i) {
    const at::Tensor part = part_of(more, layout_.slots[i]);
    at::Tensor& gradient = shards_[i].mutable_grad();
    gradient = gradient.defined() ? gradient.add_(part) : shard_memory(layout_.slots[i]).copy_(part);
  }
}

void GroupGradients::accumulate() {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < layout_.trainable; ++i) {
    const at::Tensor sum = take(i);
    accumulated_[i] = sum.defined() ? sum.to(flat_.scalar_type()) : sum;
  }
}

void GroupGradients::zero() {
  for (std::size_t i = 0; i < layout_.slots.size(); ++i) {
    layout_.slots[i].unsharded.mutable_grad().reset();
    accumulated_[i].reset();
    shards_[i].mutable_grad().reset();
  }
}

}  // namespace rollcall::parallel::fsdp

#include "trainer/parallel/fsdp/parameter_group.h"

#include <algorithm>
#include <utility>

#include "trainer/parallel/fsdp/whole_parameter.h"

namespace rollcall::parallel::fsdp {
namespace {

void check(const std::string& group, const Member& member, at::ScalarType type, c10::Device device) {
  TORCH_CHECK(member.tensor.device() == device, member.name, " is on ", member.tensor.device(), ", others on ", device,
              ": parameters that are sharded together are on one device");
  TORCH_CHECK(rows_are_outermost(member.tensor), member.name,
              " cannot be sharded: its dimension 0 is not outermost in memory");
  TORCH_CHECK(member.tensor.scalar_type() == type, member.name, " is ", member.tensor.scalar_type(), " in block ",
              group, " of ", type, ": parameters of a block have one type");
}

/// Memory of its own, which can be freed without touching another tensor.
void own_memory(const at::Tensor& tensor, at::ScalarType type) {
  const bool alone =
      tensor.storage_offset() == 0 && tensor.storage().use_count() == 1 && tensor.storage().nbytes() == tensor.nbytes();
  if (!alone || tensor.scalar_type() != type) {
    at::Tensor changed = tensor;
    changed.set_data(
        at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().dtype(type)).copy_(tensor.detach()));
  }
}

}  // namespace

ParameterGroup::ParameterGroup(const GroupContext& context, std::string name, std::vector<Member> members)
    : communicator_(context.communicator),
      memory_(context.memory),
      host_link_(context.host_link),
      options_(context.options),
      name_(std::move(name)) {
  const torch::NoGradGuard no_grad;
  std::stable_partition(members.begin(), members.end(), [](const Member& m) { return m.tensor.requires_grad(); });
  const at::ScalarType type = members.at(0).tensor.scalar_type();
  std::int64_t numel = 0;
  for (const Member& member : members) {
    check(name_, member, type, memory_.device());
    numel += RowShards(member.tensor, communicator_.size()).padded_numel();
  }
  const at::TensorOptions home =
      host_link_ != nullptr ? host_link_->host_options(type) : at::TensorOptions(type).device(memory_.device());
  flat_ = at::zeros({numel}, home);
  for (const Member& member : members) {
    add(member);
  }
  for (const Slot& slot : slots_) {
    add_pieces(slot);
  }
  flat_gradient_ = at::empty({reduce_numel_}, home);
  state_ = State::Whole;
  count_whole(whole_bytes());
  make_shards();
}

void ParameterGroup::add(const Member& member) {
  Slot slot{.name = member.name,
            .whole = member.tensor,
            .rows = RowShards(member.tensor, communicator_.size()),
            .offset = 0,
            .gather_offset = gather_bytes_,
            .whole_offset = room_,
            .accumulated = {}};
  for (const Slot& before : slots_) {
    slot.offset += before.rows.padded_numel();
  }
  const bool trainable = member.tensor.requires_grad();
  cut(slot);
  shards_.push_back(part_of(flat_, slot).detach());
  shards_.back().requires_grad_(trainable);
  const at::ScalarType type =
      member.keeps_type ? flat_.scalar_type() : options_.parameter_type.value_or(flat_.scalar_type());
  own_memory(slot.whole, type);
  one_type_ = one_type_ && type == flat_.scalar_type();
  gather_bytes_ += padded_bytes(slot);
  room_ += memory_.aligned(static_cast<std::int64_t>(slot.whole.nbytes()));
  if (trainable) {
    trainable_ += 1;
    reduce_numel_ += slot.rows.padded_numel();
  }
  slots_.push_back(std::move(slot));
}

/// This rank's part of the whole values into the flat shard.
void ParameterGroup::cut(const Slot& slot) {
  const std::int64_t rank = communicator_.rank();
  const std::int64_t numel = slot.rows.numel_of(rank);
  flat_.narrow(0, slot.offset, numel).copy_(in_memory_order(slot.whole).narrow(0, slot.rows.offset_of(rank), numel));
}

void ParameterGroup::add_pieces(const Slot& slot) {
  const auto element = static_cast<std::int64_t>(slot.whole.element_size());
  for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
    pieces_.push_back({.to = slot.whole_offset + slot.rows.offset_of(rank) * element,
                       .from = rank * gather_bytes_ + slot.gather_offset,
                       .bytes = slot.rows.numel_of(rank) * element});
  }
}

std::int64_t ParameterGroup::padded_bytes(const Slot& slot) const {
  return slot.rows.padded_numel() * static_cast<std::int64_t>(slot.whole.element_size());
}

std::int64_t ParameterGroup::whole_bytes() const { return gather_bytes_ * communicator_.size(); }

void ParameterGroup::count_whole(std::int64_t bytes) {
  Counters& counters = communicator_.counters;
  counters.whole_bytes += bytes;
  counters.peak_whole_bytes = std::max(counters.peak_whole_bytes, counters.whole_bytes);
}

/// This rank's part of an all-gather, where the model computes and in the types in which it does.
at::Tensor ParameterGroup::gather_input() const {
  const at::Tensor values = host_link_ != nullptr ? host_link_->upload(flat_) : flat_;
  if (one_type_) {
    return values;
  }
  at::Tensor input = at::empty({gather_bytes_}, values.options().dtype(at::kByte));
  for (const Slot& slot : slots_) {
    const at::Tensor converted = values.narrow(0, slot.offset, slot.rows.padded_numel()).to(slot.whole.scalar_type());
    copy_pieces(input, converted, {{slot.gather_offset, 0, padded_bytes(slot)}});
  }
  return input;
}

void ParameterGroup::issue_gather() {
  at::Tensor mine = gather_input();
  pending_ = communicator_.all_gather(communicator_.mesh().shard, gathered_, mine);
}

void ParameterGroup::start_gather() {
  if (state_ == State::Gathering || state_ == State::Whole) {
    return;
  }
  const torch::NoGradGuard no_grad;
  gathered_ = memory_.take(whole_bytes());
  count_whole(whole_bytes());
  if (state_ == State::SmallShards) {
    pending_ = communicator_.all_gather(communicator_.mesh().reshard, gathered_, small_);
  } else if (host_link_ != nullptr) {
    host_link_->on_way_up([this] { issue_gather(); });
  } else {
    issue_gather();
  }
  state_ = State::Gathering;
}

void ParameterGroup::await_gather() {
  pending_.wait();
  if (host_link_ != nullptr) {
    host_link_->await_uploads();
  }
}

void ParameterGroup::make_whole(bool keep_small) {
  start_gather();
  if (state_ != State::Gathering) {
    return;
  }
  await_gather();
  count_whole(whole_bytes());
  const at::Tensor room = memory_.take(room_);
  copy_pieces(room, gathered_, pieces_);
  for (const Slot& slot : slots_) {
    lend(slot.whole, room, slot.whole_offset);
  }
  if (keep_small && !small_.defined()) {
    const process_group::Group& group = communicator_.mesh().reshard;
    const std::int64_t piece = whole_bytes() / process_group::world_size_of(group);
    small_ = gathered_.narrow(0, process_group::rank_of(group) * piece, piece).clone();
    count_whole(piece);
  }
  gathered_.reset();
  count_whole(-whole_bytes());
  state_ = State::Whole;
}

void ParameterGroup::make_shards() {
  if (state_ != State::Whole) {
    return;
  }
  for (const Slot& slot : slots_) {
    release(slot.whole, slot.name);
  }
  count_whole(-whole_bytes());
  state_ = small_.defined() ? State::SmallShards : State::Shards;
}

void ParameterGroup::forget() {
  if (state_ == State::Gathering) {  // prefetched, and then not used
    await_gather();
    gathered_.reset();
    count_whole(-whole_bytes());
    state_ = State::Shards;
  }
  if (small_.defined()) {
    count_whole(-static_cast<std::int64_t>(small_.nbytes()));
    small_.reset();
  }
  make_shards();
  state_ = State::Shards;
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
void ParameterGroup::copy_in(const Slot& slot, const at::Tensor& gradient, const at::Tensor& parts) const {
  const auto element = static_cast<std::int64_t>(parts.element_size());
  std::vector<Piece> pieces;
  for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
    const Piece piece{.to = (rank * reduce_numel_ + slot.offset) * element,
                      .from = slot.rows.offset_of(rank) * element,
                      .bytes = gradient.defined() ? slot.rows.numel_of(rank) * element : 0};
    pieces.push_back(piece);
    set_zero(parts, piece.to + piece.bytes, slot.rows.padded_numel() * element - piece.bytes);
  }
  if (gradient.defined()) {
    copy_pieces(parts, gradient, pieces);
  }
}

/// Room for every rank's part of the gradients.
at::Tensor ParameterGroup::exchange_memory() const {
  const std::int64_t numel = communicator_.size() * reduce_numel_;
  const auto element = static_cast<std::int64_t>(c10::elementSize(reduce_type()));
  return memory_.take(numel * element).view(reduce_type()).view({communicator_.size(), reduce_numel_});
}

ParameterGroup::Reduction ParameterGroup::start_reduction() {
  const torch::NoGradGuard no_grad;
  Reduction reduction;
  reduction.parts = exchange_memory();
  reduction.received = exchange_memory();
  for (std::size_t i = 0; i < trainable_; ++i) {
    copy_in(slots_[i], take_gradient(slots_[i]), reduction.parts);
  }
  reduction.pending = communicator_.exchange(reduction.received, reduction.parts);
  return reduction;
}

at::Tensor ParameterGroup::part_of(const at::Tensor& flat, const Slot& slot) const {
  return shard_view(flat, slot.whole, slot.rows, communicator_.rank(), slot.offset);
}

void ParameterGroup::finish(Reduction& reduction) {
  const torch::NoGradGuard no_grad;
  reduction.pending.wait();
  at::Tensor mean = Communicator::add_up(reduction.received, flat_.scalar_type());
  communicator_.add_replicas(mean);
  mean.div_(static_cast<double>(communicator_.size() * communicator_.replicas()));
  if (has_gradients()) {
    add_gradients(mean);
  } else {
    set_gradients(mean);
  }
}

bool ParameterGroup::has_gradients() const {
  return std::any_of(shards_.begin(), shards_.end(), [](const at::Tensor& shard) { return shard.grad().defined(); });
}

void ParameterGroup::set_gradients(const at::Tensor& mean) {
  if (host_link_ != nullptr) {
    host_link_->download(flat_gradient_, mean);
  } else {
    flat_gradient_.copy_(mean);
  }
  for (std::size_t i = 0; i < trainable_; ++i) {
    shards_[i].mutable_grad() = gradient_memory(slots_[i]);
  }
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

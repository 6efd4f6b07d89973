#include "trainer/distributed/fsdp/parameter_group.h"

#include <algorithm>
#include <utility>

#include "trainer/distributed/fsdp/whole_parameter.h"

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
  sort_for_travel(members, communicator_.size(), options_);
  bundles_ = bundles_of(members, communicator_.size(), options_);
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
  for (const Bundle& bundle : bundles_) {
    add_pieces(bundle);
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
            .whole_offset = room_bytes_,
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
  room_bytes_ += memory_.aligned(static_cast<std::int64_t>(slot.whole.nbytes()));
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

at::Tensor ParameterGroup::part_of(const at::Tensor& flat, const Slot& slot) const {
  return shard_view(flat, slot.whole, slot.rows, communicator_.rank(), slot.offset);
}

void ParameterGroup::add_pieces(const Bundle& bundle) {
  if (bundle.in_place) {
    return;
  }
  const Span span = gathered_span(bundle);
  for (std::size_t i = bundle.first; i < bundle.first + bundle.count; ++i) {
    const Slot& slot = slots_[i];
    const auto element = static_cast<std::int64_t>(slot.whole.element_size());
    for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
      pieces_.push_back({.to = slot.whole_offset + slot.rows.offset_of(rank) * element,
                         .from = rank * span.size + slot.gather_offset - span.begin,
                         .bytes = slot.rows.numel_of(rank) * element});
    }
  }
}

ParameterGroup::Span ParameterGroup::gathered_span(const Bundle& bundle) const {
  const std::int64_t begin = slots_[bundle.first].gather_offset;
  const std::size_t end = bundle.first + bundle.count;
  return {begin, (end == slots_.size() ? gather_bytes_ : slots_[end].gather_offset) - begin};
}

/// Of the buffer that some share in an all-gather.
std::int64_t ParameterGroup::buffer_bytes() const {
  std::int64_t bytes = 0;
  for (const Bundle& bundle : bundles_) {
    bytes += bundle.in_place ? 0 : gathered_span(bundle).size * communicator_.size();
  }
  return bytes;
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
  const at::Tensor input = gather_input().view(at::kByte);
  std::vector<at::Tensor> wholes;
  std::vector<at::Tensor> mine;
  for (const Bundle& bundle : bundles_) {
    const Span span = gathered_span(bundle);
    const std::int64_t bytes = span.size * communicator_.size();
    wholes.push_back(bundle.in_place ? room_.narrow(0, slots_[bundle.first].whole_offset, bytes) : buffer_);
    mine.push_back(input.narrow(0, span.begin, span.size));
  }
  pending_ = communicator_.all_gather(communicator_.mesh().shard, std::move(wholes), std::move(mine));
}

void ParameterGroup::start_gather() {
  if (state_ == State::Gathering || state_ == State::Whole) {
    return;
  }
  const torch::NoGradGuard no_grad;
  room_ = memory_.take(room_bytes_);
  buffer_ = memory_.take(buffer_bytes());
  count_whole(whole_bytes() + buffer_bytes());
  if (state_ == State::SmallShards) {
    pending_ = communicator_.all_gather(communicator_.mesh().reshard, {buffer_}, {small_});
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
  copy_pieces(room_, buffer_, pieces_);
  for (const Slot& slot : slots_) {
    lend(slot.whole, room_, slot.whole_offset);
  }
  if (keep_small && !small_.defined()) {
    const process_group::Group& group = communicator_.mesh().reshard;
    const std::int64_t piece = whole_bytes() / process_group::world_size_of(group);
    small_ = buffer_.narrow(0, process_group::rank_of(group) * piece, piece).clone();
    count_whole(piece);
  }
  room_.reset();
  buffer_.reset();
  count_whole(-buffer_bytes());
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
    room_.reset();
    buffer_.reset();
    count_whole(-whole_bytes() - buffer_bytes());
    state_ = State::Shards;
  }
  if (small_.defined()) {
    count_whole(-static_cast<std::int64_t>(small_.nbytes()));
    small_.reset();
  }
  make_shards();
  state_ = State::Shards;
}

}  // namespace rollcall::parallel::fsdp

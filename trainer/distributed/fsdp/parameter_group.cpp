#include "trainer/distributed/fsdp/parameter_group.h"

#include <algorithm>
#include <utility>

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

/// Copies the tensor into memory of its own, which can be freed without affecting another tensor.
void own_memory(const at::Tensor& tensor, at::ScalarType type) {
  const bool alone =
      tensor.storage_offset() == 0 && tensor.storage().use_count() == 1 && tensor.storage().nbytes() == tensor.nbytes();
  if (!alone || tensor.scalar_type() != type) {
    at::Tensor changed = tensor;  // NOLINT(performance-unnecessary-copy-initialization): set_data() is of no const one
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
  sort_for_coalescing(members, communicator_.size(), options_);
  layout_.messages = coalesce(members, communicator_.size(), options_);
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
  for (const Coalesced& message : layout_.messages) {
    add_pieces(message);
  }
  gradients_.emplace(context, layout_, shards_, home);
  count_unsharded(unsharded_bytes());
  reshard();
}

void ParameterGroup::add(const Member& member) {
  Slot slot{.name = member.name,
            .unsharded = member.tensor,
            .rows = RowShards(member.tensor, communicator_.size()),
            .offset = 0,
            .gather_offset = layout_.gather_bytes,
            .unsharded_offset = layout_.unsharded_bytes};
  for (const Slot& before : layout_.slots) {
    slot.offset += before.rows.padded_numel();
  }
  const bool trainable = member.tensor.requires_grad();
  copy_own_part(slot);
  shards_.push_back(shard_view(flat_, slot.unsharded, slot.rows, communicator_.rank(), slot.offset).detach());
  shards_.back().requires_grad_(trainable);
  const at::ScalarType type =
      member.keeps_type ? flat_.scalar_type() : options_.parameter_type.value_or(flat_.scalar_type());
  own_memory(slot.unsharded, type);
  one_type_ = one_type_ && type == flat_.scalar_type();
  layout_.gather_bytes += slot.padded_bytes();
  layout_.unsharded_bytes += memory_.aligned(static_cast<std::int64_t>(slot.unsharded.nbytes()));
  if (trainable) {
    layout_.trainable += 1;
    layout_.reduce_numel += slot.rows.padded_numel();
  }
  layout_.slots.push_back(std::move(slot));
}

/// Copies this rank's part of the unsharded values into the flat shard.
void ParameterGroup::copy_own_part(const Slot& slot) {
  const std::int64_t rank = communicator_.rank();
  const std::int64_t numel = slot.rows.numel_of(rank);
  flat_.narrow(0, slot.offset, numel)
      .copy_(in_memory_order(slot.unsharded).narrow(0, slot.rows.offset_of(rank), numel));
}

void ParameterGroup::add_pieces(const Coalesced& message) {
  if (message.in_place) {
    return;
  }
  const GroupLayout::Span span = layout_.gathered_span(message);
  for (std::size_t i = message.first; i < message.first + message.count; ++i) {
    const Slot& slot = layout_.slots[i];
    const auto element = static_cast<std::int64_t>(slot.unsharded.element_size());
    for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
      pieces_.push_back({.to = slot.unsharded_offset + slot.rows.offset_of(rank) * element,
                         .from = rank * span.size + slot.gather_offset - span.begin,
                         .bytes = slot.rows.numel_of(rank) * element});
    }
  }
}

/// Returns the size of the buffer that parameters share in an all-gather.
std::int64_t ParameterGroup::buffer_bytes() const {
  std::int64_t bytes = 0;
  for (const Coalesced& message : layout_.messages) {
    bytes += message.in_place ? 0 : layout_.gathered_span(message).size * communicator_.size();
  }
  return bytes;
}

void ParameterGroup::count_unsharded(std::int64_t bytes) {
  Counters& counters = communicator_.counters;
  counters.unsharded_bytes += bytes;
  counters.peak_unsharded_bytes = std::max(counters.peak_unsharded_bytes, counters.unsharded_bytes);
}

/// Returns this rank's input of an all-gather, on the device and in the types with which the model computes.
at::Tensor ParameterGroup::gather_input() const {
  at::Tensor values = host_link_ != nullptr ? host_link_->upload(flat_) : flat_;
  if (one_type_) {
    return values;
  }
  at::Tensor input = at::empty({layout_.gather_bytes}, values.options().dtype(at::kByte));
  for (const Slot& slot : layout_.slots) {
    const at::Tensor converted =
        values.narrow(0, slot.offset, slot.rows.padded_numel()).to(slot.unsharded.scalar_type());
    copy_pieces(input, converted, {{slot.gather_offset, 0, slot.padded_bytes()}});
  }
  return input;
}

void ParameterGroup::issue_gather() {
  const at::Tensor input = gather_input().view(at::kByte);
  std::vector<at::Tensor> gathered;
  std::vector<at::Tensor> mine;
  for (const Coalesced& message : layout_.messages) {
    const GroupLayout::Span span = layout_.gathered_span(message);
    const std::int64_t bytes = span.size * communicator_.size();
    const std::int64_t place = layout_.slots[message.first].unsharded_offset;
    gathered.push_back(message.in_place ? room_.narrow(0, place, bytes) : buffer_);
    mine.push_back(input.narrow(0, span.begin, span.size));
  }
  pending_ = communicator_.all_gather(communicator_.mesh().shard, std::move(gathered), std::move(mine));
}

void ParameterGroup::start_gather() {
  if (state_ == State::Gathering || state_ == State::Unsharded) {
    return;
  }
  const torch::NoGradGuard no_grad;
  room_ = memory_.take(layout_.unsharded_bytes);
  buffer_ = memory_.take(buffer_bytes());
  count_unsharded(unsharded_bytes() + buffer_bytes());
  if (state_ == State::SmallShards) {
    pending_ = communicator_.all_gather(communicator_.mesh().reshard, {buffer_}, {small_});
  } else if (host_link_ != nullptr) {
    uploaded_ = host_link_->run_on_upload_stream([this] { issue_gather(); });
  } else {
    issue_gather();
  }
  state_ = State::Gathering;
}

void ParameterGroup::await_gather() {
  pending_.wait();
  if (host_link_ != nullptr) {
    host_link_->await(std::exchange(uploaded_, std::nullopt));
  }
}

void ParameterGroup::unshard(bool keep_small) {
  start_gather();
  if (state_ != State::Gathering) {
    return;
  }
  await_gather();
  copy_pieces(room_, buffer_, pieces_);
  for (const Slot& slot : layout_.slots) {
    lend(slot.unsharded, room_, slot.unsharded_offset);
  }
  if (keep_small && !small_.defined()) {
    const process_group::Group& group = communicator_.mesh().reshard;
    const std::int64_t piece = unsharded_bytes() / process_group::world_size_of(group);
    small_ = buffer_.narrow(0, process_group::rank_of(group) * piece, piece).clone();
    count_unsharded(piece);
  }
  room_.reset();
  buffer_.reset();
  count_unsharded(-buffer_bytes());
  state_ = State::Unsharded;
}

void ParameterGroup::reshard() {
  if (state_ != State::Unsharded) {
    return;
  }
  for (const Slot& slot : layout_.slots) {
    release(slot.unsharded, slot.name);
  }
  count_unsharded(-unsharded_bytes());
  state_ = small_.defined() ? State::SmallShards : State::Sharded;
}

void ParameterGroup::forget() {
  if (state_ == State::Gathering) {  // prefetched, and then not used
    await_gather();
    room_.reset();
    buffer_.reset();
    count_unsharded(-unsharded_bytes() - buffer_bytes());
    state_ = State::Sharded;
  }
  if (small_.defined()) {
    count_unsharded(-static_cast<std::int64_t>(small_.nbytes()));
    small_.reset();
  }
  reshard();
  state_ = State::Sharded;
}

}  // namespace rollcall::parallel::fsdp

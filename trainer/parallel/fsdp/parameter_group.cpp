#include "trainer/parallel/fsdp/parameter_group.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trainer/parallel/fsdp/whole_parameter.h"

namespace rollcall::parallel::fsdp {
namespace {

/// As c10's allocator for CPUs aligns tensors: kernels' fastest loads want it.
std::size_t aligned(std::size_t bytes) { return (bytes + c10::gAlignment - 1) / c10::gAlignment * c10::gAlignment; }

std::size_t unsigned_size(std::int64_t size) { return static_cast<std::size_t>(size); }

void check(const std::string& group, const Member& member, at::ScalarType type) {
  TORCH_CHECK(member.tensor.device().is_cpu(), member.name, " is not on the CPU: sharding works there only");
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

ParameterGroup::ParameterGroup(Communicator& communicator, const UnshardedMemory& memory, const Options& options,
                               std::string name, std::vector<Member> members)
    : communicator_(communicator), memory_(memory), options_(options), name_(std::move(name)) {
  const torch::NoGradGuard no_grad;
  std::stable_partition(members.begin(), members.end(), [](const Member& m) { return m.tensor.requires_grad(); });
  const at::ScalarType type = members.at(0).tensor.scalar_type();
  std::int64_t numel = 0;
  for (const Member& member : members) {
    check(name_, member, type);
    numel += RowShards(member.tensor, communicator_.size()).padded_numel();
  }
  flat_ = at::zeros({numel}, members[0].tensor.options().requires_grad(false));
  for (const Member& member : members) {
    add(member);
  }
  flat_gradient_ = at::empty({reduce_numel_}, flat_.options());
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
  room_ += aligned(slot.whole.nbytes());
  if (trainable) {
    trainable_ += 1;
    reduce_numel_ += slot.rows.padded_numel();
  }
  slots_.push_back(std::move(slot));
}

/// This rank's part of the whole values into the flat shard.
void ParameterGroup::cut(const Slot& slot) {
  const std::int64_t rank = communicator_.rank();
  const std::size_t element = flat_.element_size();
  const auto* const from = static_cast<const char*>(slot.whole.const_data_ptr());
  auto* const to = static_cast<char*>(flat_.mutable_data_ptr());
  std::memcpy(to + unsigned_size(slot.offset) * element, from + unsigned_size(slot.rows.offset_of(rank)) * element,
              unsigned_size(slot.rows.numel_of(rank)) * element);
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

at::Tensor ParameterGroup::gather_input() const {
  if (one_type_) {
    return flat_;
  }
  at::Tensor input = at::empty({gather_bytes_}, at::kByte);
  auto* const to = input.mutable_data_ptr<std::uint8_t>();
  for (const Slot& slot : slots_) {
    const at::Tensor converted = flat_.narrow(0, slot.offset, slot.rows.padded_numel()).to(slot.whole.scalar_type());
    std::memcpy(to + slot.gather_offset, converted.const_data_ptr(), converted.nbytes());
  }
  return input;
}

void ParameterGroup::start_gather() {
  if (state_ == State::Gathering || state_ == State::Whole) {
    return;
  }
  const torch::NoGradGuard no_grad;
  gathered_ = unsharded({whole_bytes()}, at::kByte);
  count_whole(whole_bytes());
  const process_group::Mesh& mesh = communicator_.mesh();
  at::Tensor mine = state_ == State::SmallShards ? small_ : gather_input();
  pending_ = communicator_.all_gather(state_ == State::SmallShards ? mesh.reshard : mesh.shard, gathered_, mine);
  state_ = State::Gathering;
}

at::Tensor ParameterGroup::unsharded(at::IntArrayRef sizes, at::ScalarType type) const {
  const std::int64_t numel = c10::multiply_integers(sizes);
  std::shared_ptr<char> memory = memory_.take(unsigned_size(numel) * c10::elementSize(type));
  return at::from_blob(
      memory.get(), sizes, [memory](void*) {}, at::TensorOptions(type));
}

void ParameterGroup::copy_out(const Slot& slot, char* to) const {
  const auto element = static_cast<std::int64_t>(slot.whole.element_size());
  const auto* const from = static_cast<const char*>(gathered_.const_data_ptr());
  for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
    std::memcpy(to + slot.rows.offset_of(rank) * element, from + rank * gather_bytes_ + slot.gather_offset,
                unsigned_size(slot.rows.numel_of(rank) * element));
  }
}

void ParameterGroup::make_whole(bool keep_small) {
  start_gather();
  if (state_ != State::Gathering) {
    return;
  }
  pending_.wait();
  count_whole(whole_bytes());
  const std::shared_ptr<char> room = memory_.take(room_);
  for (const Slot& slot : slots_) {
    const std::shared_ptr<char> place(room, room.get() + slot.whole_offset);
    copy_out(slot, place.get());
    lend(slot.whole, place);
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
    pending_.wait();
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
  const std::size_t element = parts.element_size();
  const auto* const from = gradient.defined() ? static_cast<const char*>(gradient.const_data_ptr()) : nullptr;
  for (std::int64_t rank = 0; rank < communicator_.size(); ++rank) {
    auto* const to =
        static_cast<char*>(parts.mutable_data_ptr()) + unsigned_size(rank * reduce_numel_ + slot.offset) * element;
    const std::size_t size = from == nullptr ? 0 : unsigned_size(slot.rows.numel_of(rank)) * element;
    if (size > 0) {
      std::memcpy(to, from + unsigned_size(slot.rows.offset_of(rank)) * element, size);
    }
    std::memset(to + size, 0, unsigned_size(slot.rows.padded_numel()) * element - size);
  }
}

ParameterGroup::Reduction ParameterGroup::start_reduction() {
  const torch::NoGradGuard no_grad;
  Reduction reduction;
  reduction.parts = unsharded({communicator_.size(), reduce_numel_}, reduce_type());
  reduction.received = unsharded({communicator_.size(), reduce_numel_}, reduce_type());
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
  for (std::size_t i = 0; i < trainable_; ++i) {
    const at::Tensor part = part_of(mean, slots_[i]);
    at::Tensor& gradient = shards_[i].mutable_grad();
    if (gradient.defined()) {
      gradient.add_(part);
    } else {
      // data(): zero_grad() of an optimizer would refuse what autograd takes for a view.
      gradient = part_of(flat_gradient_, slots_[i]).copy_(part).data();
    }
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

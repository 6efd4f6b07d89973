#include "trainer/distributed/ddp/exact_replica.h"

#include <algorithm>
#include <utility>

#include "trainer/libtorch_version.h"

namespace rollcall::parallel {
namespace {

Result<void> check_types(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.dtype() != parameters.front().dtype()) {
      return fail("--elastic-exact", std::string(parameter.dtype().name()),
                  "is not possible with parameters of several types: they have no common order of additions",
                  "leaving it out", ErrorKind::Mismatch);
    }
  }
  return {};
}

/// Returns whether two adjacent blocks are the halves of a subtree.
bool are_siblings(const RankBlock& left, const RankBlock& right) {
  return left.ranks == right.ranks && left.first + left.ranks == right.first && left.first % (2 * left.ranks) == 0;
}

RankBlock joined(const RankBlock& left, const RankBlock& right) {
  return {.first = left.first, .ranks = left.ranks + right.ranks};
}

}  // namespace

VirtualRanks divide_virtual_ranks(std::int64_t all, std::int64_t rank, std::int64_t world_size) {
  const std::int64_t least = all / world_size;
  const std::int64_t with_one_more = all % world_size;
  return {.all = all,
          .first = rank * least + std::min(rank, with_one_more),
          .mine = least + (rank < with_one_more ? 1 : 0)};
}

std::vector<RankBlock> blocks_of(std::int64_t first, std::int64_t mine) {
  std::vector<RankBlock> blocks;
  for (std::int64_t rank = first; rank < first + mine; ++rank) {
    RankBlock block{.first = rank, .ranks = 1};
    while (!blocks.empty() && are_siblings(blocks.back(), block)) {
      block = joined(blocks.back(), block);
      blocks.pop_back();
    }
    blocks.push_back(block);
  }
  return blocks;
}

ExactReplica::ExactReplica(std::shared_ptr<torch::nn::Module> module, process_group::Group group,
                           const ExactOptions& options)
    : module_(std::move(module)),
      group_(std::move(group)),
      world_size_(process_group::world_size_of(group_)),
      accumulation_(options.accumulation),
      ranks_(divide_virtual_ranks(options.virtual_ranks, process_group::rank_of(group_), world_size_)),
      buffers_(module_->buffers()) {
  for (const at::Tensor& parameter : module_->parameters()) {
    if (parameter.requires_grad()) {
      parameters_.push_back(parameter);
    }
  }
}

Result<std::unique_ptr<ExactReplica>> ExactReplica::create(std::shared_ptr<torch::nn::Module> module,
                                                           process_group::Group group, const ExactOptions& options) {
  std::unique_ptr<ExactReplica> replica(new ExactReplica(std::move(module), std::move(group), options));
  RETURN_IF_ERROR(check_types(replica->parameters_));
  if (replica->group_) {
    RETURN_IF_ERROR(verify_same_model(*replica->module_, replica->group_));
    RETURN_IF_ERROR(process_group::guard_collective(replica->group_, [&] {
      replica->allocate();
      if (options.broadcast_at_first) {
        broadcast_values(replica->module_->parameters(), replica->group_);
        broadcast_values(replica->buffers_, replica->group_);
      }
    }));
  }
  if (!replica->group_) {
    replica->allocate();
  }
  return replica;
}

/// Makes gradients with their parameters' strides, as autograd does.
void ExactReplica::allocate() {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters_) {
    elements += parameter.numel();
  }
  part_ = (elements + world_size_ - 1) / world_size_;
  const at::TensorOptions options = parameters_.empty() ? at::TensorOptions() : parameters_.front().options();
  places_.push_back(torch::empty({world_size_ * part_}, options.requires_grad(false)));
  begin_gradients();
}

/// Sets the gradients of the next virtual rank to 0.
void ExactReplica::begin_gradients() {
  const auto is_free = [this](const at::Tensor& place) {
    return std::none_of(sums_.begin(), sums_.end(), [&](const BlockSum& kept) { return kept.sum.is_same(place); });
  };
  const auto found = std::find_if(places_.begin(), places_.end(), is_free);
  gradients_ = found != places_.end() ? *found : places_.emplace_back(torch::empty_like(places_.front()));
  gradients_.zero_();
  std::int64_t begin = 0;
  for (at::Tensor& parameter : parameters_) {
    parameter.mutable_grad() = gradients_.as_strided(parameter.sizes(), parameter.strides(), begin);
    begin += parameter.numel();
  }
}

void ExactReplica::zero_grad() {
  sums_.clear();
  begin_gradients();
  buffers_at_first_ = copies_of(buffers_);
  batches_ = 0;
}

at::Tensor ExactReplica::forward(const Loss& loss) {
  if (batches_ > 0 && batches_ % accumulation_ == 0) {
    const torch::NoGradGuard no_grad;
    keep_gradients();
    begin_gradients();
    copy_values(buffers_, buffers_at_first_);
  }
  batches_ += 1;
  return loss();
}

/// Adds the gradients of the virtual rank whose last batch is done to the sums.
void ExactReplica::keep_gradients() {
  const std::int64_t rank = ranks_.first + batches_ / accumulation_ - 1;
  if (rank == 0) {
    buffers_of_first_ = copies_of(buffers_);
  }
  add(sums_, {.block = {.first = rank, .ranks = 1}, .sum = gradients_});
}

/// Appends `more`, and adds up the halves of each complete block into its left half.
void ExactReplica::add(std::vector<BlockSum>& sums, BlockSum more) {
  while (!sums.empty() && are_siblings(sums.back().block, more.block)) {
    sums.back().sum.add_(more.sum);
    more = {.block = joined(sums.back().block, more.block), .sum = sums.back().sum};
    sums.pop_back();
  }
  sums.push_back(std::move(more));
}

void ExactReplica::finish_gradients() {
  const torch::NoGradGuard no_grad;
  if (ranks_.mine > 0) {
    keep_gradients();
  }
  at::Tensor average = average_of(all_to_all_sums());
  if (group_) {
    group_->all_gather_single(gradients_, average)->wait();
  } else {
    gradients_.copy_(average);
  }
  sums_.clear();
  if (ranks_.first == 0 && ranks_.mine > 0) {
    copy_values(buffers_, buffers_of_first_);
  }
  if (group_) {
    broadcast_values(buffers_, group_);
  }
}

/// Returns this process's sums as [world_size, sums, part]; a single one is not copied.
at::Tensor ExactReplica::sent_sums() const {
  if (sums_.empty()) {
    return torch::empty({world_size_, 0, part_}, gradients_.options());
  }
  std::vector<at::Tensor> parts;
  for (const BlockSum& each : sums_) {
    parts.push_back(each.sum.view({world_size_, 1, part_}));
  }
  return parts.size() == 1 ? parts.front() : torch::cat(parts, 1);
}

/// Returns all processes' sums of the part of the gradients that this one adds up.
std::vector<ExactReplica::BlockSum> ExactReplica::all_to_all_sums() {
  if (!group_) {
    return sums_;
  }
  std::vector<RankBlock> blocks;
  std::vector<std::int64_t> from_each;
  for (std::int64_t rank = 0; rank < world_size_; ++rank) {
    const VirtualRanks theirs = divide_virtual_ranks(ranks_.all, rank, world_size_);
    const std::vector<RankBlock> own = blocks_of(theirs.first, theirs.mine);
    blocks.insert(blocks.end(), own.begin(), own.end());
    from_each.push_back(static_cast<std::int64_t>(own.size()));
  }
  const auto mine = static_cast<std::int64_t>(sums_.size());
  at::Tensor sent = sent_sums().view({world_size_ * mine, part_});
  at::Tensor received = torch::empty({static_cast<std::int64_t>(blocks.size()), part_}, gradients_.options());
  std::vector<std::int64_t> to_each(from_each.size(), mine);
  group_->all_to_all_single(received, sent, from_each, to_each)->wait();
  std::vector<BlockSum> sums;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    sums.push_back({.block = blocks[i], .sum = received[static_cast<std::int64_t>(i)]});
  }
  return sums;
}

/// If the number of virtual ranks is not a power of two, the incomplete blocks at the tree's right edge are added up
/// from the right.
at::Tensor ExactReplica::average_of(const std::vector<BlockSum>& sums) const {
  std::vector<BlockSum> left;
  for (const BlockSum& sum : sums) {
    add(left, sum);
  }
  for (; left.size() > 1; left.pop_back()) {
    left[left.size() - 2].sum.add_(left.back().sum);
  }
  return left.front().sum.div_(ranks_.all);
}

at::Tensor ExactReplica::evaluate(const Loss& outputs) {
  const torch::NoGradGuard no_grad;
  return outputs();
}

at::Tensor ExactReplica::clip_grad_norm(double max_norm) {
  return parallel::clip_grad_norm(parameters_, max_norm, nullptr);
}

}  // namespace rollcall::parallel

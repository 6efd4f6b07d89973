#include "trainer/distributed/ddp/exact_replica.h"

#include <algorithm>
#include <utility>

namespace rollcall::parallel {
namespace {

Result<void> check_types(const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& parameter : parameters) {
    if (parameter.dtype() != parameters.front().dtype()) {
      return fail("--elastic-exact", std::string(parameter.dtype().name()),
                  "parameters of several types have no common order of additions", "leaving it out",
                  ExitCode::Mismatch);
    }
  }
  return {};
}

}  // namespace

VirtualRanks divide_virtual_ranks(std::int64_t all, std::int64_t rank, std::int64_t world_size) {
  const std::int64_t least = all / world_size;
  const std::int64_t with_one_more = all % world_size;
  return {.all = all,
          .first = rank * least + std::min(rank, with_one_more),
          .mine = least + (rank < with_one_more ? 1 : 0)};
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
  if (Result<void> checked = check_types(replica->parameters_); !checked) {
    return checked.error();
  }
  if (replica->group_) {
    if (const Result<void> verified = verify_same_model(*replica->module_, replica->group_); !verified) {
      return verified.error();
    }
    const Result<void> given = process_group::guard_collective(replica->group_, [&] {
      if (options.broadcast_at_first) {
        broadcast_values(replica->module_->parameters(), replica->group_);
        broadcast_values(replica->buffers_, replica->group_);
      }
    });
    if (!given) {
      return given.error();
    }
  }
  replica->allocate();
  return replica;
}

/// Gradients have their parameters' strides, as autograd would give them.
void ExactReplica::allocate() {
  std::int64_t elements = 0;
  for (const at::Tensor& parameter : parameters_) {
    elements += parameter.numel();
  }
  part_ = (elements + world_size_ - 1) / world_size_;
  const at::TensorOptions options = parameters_.empty() ? at::TensorOptions() : parameters_.front().options();
  gradients_ = torch::zeros({world_size_ * part_}, options.requires_grad(false));
  kept_ = torch::zeros({world_size_, ranks_.mine, part_}, gradients_.options());
  std::int64_t begin = 0;
  for (at::Tensor& parameter : parameters_) {
    parameter.mutable_grad() = gradients_.as_strided(parameter.sizes(), parameter.strides(), begin);
    begin += parameter.numel();
  }
}

void ExactReplica::zero_grad() {
  gradients_.zero_();
  buffers_at_first_ = copies_of(buffers_);
  batches_ = 0;
}

at::Tensor ExactReplica::forward(const Loss& loss) {
  if (batches_ > 0 && batches_ % accumulation_ == 0) {
    const torch::NoGradGuard no_grad;
    keep_gradients();
    gradients_.zero_();
    copy_values(buffers_, buffers_at_first_);
  }
  batches_ += 1;
  return loss();
}

/// Of the virtual rank whose last batch went before.
void ExactReplica::keep_gradients() {
  const std::int64_t which = batches_ / accumulation_ - 1;
  kept_.select(1, which).copy_(gradients_.view({world_size_, part_}));
  if (ranks_.first + which == 0) {
    buffers_of_first_ = copies_of(buffers_);
  }
}

void ExactReplica::finish_gradients() {
  const torch::NoGradGuard no_grad;
  if (ranks_.mine > 0) {
    keep_gradients();
  }
  at::Tensor average = average_of(exchange_gradients());
  if (group_) {
    group_->all_gather_single(gradients_, average)->wait();
  } else {
    gradients_.copy_(average);
  }
  if (ranks_.first == 0 && ranks_.mine > 0) {
    copy_values(buffers_, buffers_of_first_);
  }
  if (group_) {
    broadcast_values(buffers_, group_);
  }
}

/// [all, part]: what each virtual rank has for the part of the gradients that this process adds up.
at::Tensor ExactReplica::exchange_gradients() {
  if (!group_) {
    return kept_.view({ranks_.all, part_});
  }
  at::Tensor received = torch::empty({ranks_.all, part_}, gradients_.options());
  std::vector<std::int64_t> from_each;
  for (std::int64_t rank = 0; rank < world_size_; ++rank) {
    from_each.push_back(divide_virtual_ranks(ranks_.all, rank, world_size_).mine);
  }
  std::vector<std::int64_t> to_each(from_each.size(), ranks_.mine);
  at::Tensor sent = kept_.view({world_size_ * ranks_.mine, part_});
  group_->all_to_all_single(received, sent, from_each, to_each)->wait();
  return received;
}

at::Tensor ExactReplica::average_of(const at::Tensor& gradients) const {
  at::Tensor sum = gradients[0].clone();
  for (std::int64_t rank = 1; rank < ranks_.all; ++rank) {
    sum.add_(gradients[rank]);
  }
  return sum.div_(ranks_.all);
}

at::Tensor ExactReplica::evaluate(const Loss& outputs) {
  const torch::NoGradGuard no_grad;
  return outputs();
}

double ExactReplica::clip_grad_norm(double max_norm) {
  return parallel::clip_grad_norm(parameters_, max_norm, nullptr);
}

}  // namespace rollcall::parallel

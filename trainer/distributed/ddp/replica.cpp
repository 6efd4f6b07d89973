#include "trainer/distributed/ddp/replica.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "runtime/base/text.h"

namespace rollcall::parallel {
namespace {

/// Size of broadcast pieces: large enough to be fast; a few are copied at a time. PyTorch's 250 MiB would hold most
/// models a second time, before sharding has freed memory.
constexpr std::size_t kBroadcastBytes = std::size_t{4} << 20;

/// Describes each parameter in one line: name, type, shape, strides, whether it is trained. Replicas with equal texts
/// can be reduced together.
std::string describe(const torch::nn::Module& module) {
  std::ostringstream text;
  for (const auto& parameter : module.named_parameters()) {
    const at::Tensor& tensor = parameter.value();
    text << parameter.key() << " " << tensor.dtype() << " " << tensor.sizes() << " strides " << tensor.strides()
         << (tensor.requires_grad() ? "\n" : " frozen\n");
  }
  return text.str();
}

/// Compares this rank's description with rank 0's.
Result<void> compare(const std::string& mine, const std::string& first, std::uint32_t rank) {
  const std::vector<std::string> my_lines = split(mine, '\n');
  const std::vector<std::string> first_lines = split(first, '\n');
  for (std::size_t i = 0; i < std::max(my_lines.size(), first_lines.size()); ++i) {
    const std::string my_line = i < my_lines.size() ? my_lines[i] : "";
    const std::string first_line = i < first_lines.size() ? first_lines[i] : "";
    if (my_line != first_line) {
      return fail("model", my_line.empty() ? "nothing" : my_line,
                  "rank " + std::to_string(rank) + " has this where rank 0 has " +
                      (first_line.empty() ? "nothing" : first_line),
                  "giving every rank the same --model, --num-classes and --channels-last", ErrorKind::Mismatch);
    }
  }
  return {};
}

}  // namespace

// c10d's own check (verify_params_across_processes) fails only on the ranks that differ, and rank 0 then waits for
// them. Replicas whose numbers of dimensions differ make that check itself fail in the transport.
Result<void> verify_same_model(const torch::nn::Module& module, const process_group::Group& group) {
  const std::string mine = describe(module);
  ASSIGN_OR_RETURN(const auto all, process_group::all_gather_bytes(group, {mine.begin(), mine.end()}));
  const std::string first(all.front().begin(), all.front().end());
  return process_group::agree_or_fail(group, compare(mine, first, process_group::rank_of(group)));
}

void broadcast_values(const std::vector<at::Tensor>& tensors, const process_group::Group& group) {
  if (tensors.empty()) {
    return;
  }
  const torch::NoGradGuard no_grad;
  c10d::broadcast_coalesced(group, tensors, kBroadcastBytes);
}

std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> copies;
  copies.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    copies.push_back(tensor.detach().clone());
  }
  return copies;
}

void copy_values(const std::vector<at::Tensor>& tensors, const std::vector<at::Tensor>& values) {
  const torch::NoGradGuard no_grad;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    tensors[i].copy_(values[i]);
  }
}

namespace {

/// Multiplies the gradients by `max_norm` / `norm` if `norm` is larger. The host reads the norm only on CPUs.
void shorten(const std::vector<at::Tensor>& gradients, const at::Tensor& norm, double max_norm) {
  constexpr double kEpsilon = 1e-6;  // of torch's clip_grad_norm_
  const at::Tensor factor = torch::full({}, max_norm, norm.options()).div(norm + kEpsilon).clamp_max(1);
  if (gradients.empty() || (norm.is_cpu() && !(factor.item<double>() < 1))) {
    return;
  }
  at::_foreach_mul_(gradients, factor.to(gradients.front().scalar_type()));
}

}  // namespace

at::Tensor clip_grad_norm(const std::vector<at::Tensor>& parameters, double max_norm,
                          const process_group::Group& group) {
  const torch::NoGradGuard no_grad;
  // On the gradients' device, so that the group's backend for that device adds up the squares.
  const c10::Device device = parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) {
    if (parameter.grad().defined() && parameter.grad().numel() > 0) {
      gradients.push_back(parameter.grad());
    }
  }
  // On a GPU this takes a few launches for all of them.
  at::Tensor squares = gradients.empty()
                           ? torch::zeros({1}, at::TensorOptions(at::kDouble).device(device))
                           : torch::stack(at::_foreach_norm(gradients, 2, at::kDouble)).square().sum(0, true);
  if (group) {
    std::vector<at::Tensor> tensors{squares};
    group->allreduce(tensors)->wait();
  }
  at::Tensor norm = squares.sqrt().squeeze();
  shorten(gradients, norm, max_norm);
  return norm;
}

}  // namespace rollcall::parallel

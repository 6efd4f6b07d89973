#pragma once

#include <torch/torch.h>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/distributed/fsdp/parameter_group.h"

namespace rollcall::parallel::fsdp {

/// A block's place in the model and the parameters that only it uses.
struct Block {
  std::string name;
  torch::nn::AnyModule* place = nullptr;  ///< the element of a Sequential
  std::vector<Member> members;
};

struct Division {
  std::vector<Block> blocks;  ///< in the order in which Sequentials are registered
  std::vector<Member> rest;   ///< of no block or of several: the root's
};

/// Divides a model into blocks: the elements of its outermost Sequentials that have parameters. Those are the stages
/// and blocks of a ResNet, the layers of a transformer; what is inside a block stays together.
[[nodiscard]] Division divide(torch::nn::Module& root);

struct BlockEvents {
  std::function<at::Tensor(const at::Tensor& input)> before;
  std::function<void(const at::Tensor& output)> after;
};

/// Stands in for `place` from now on: runs `events` around its forward (one tensor in, one out). The model's
/// registered children, names and parameters stay as they are. Returns what was there, to be put back.
[[nodiscard]] torch::nn::AnyModule wrap(torch::nn::AnyModule& place, BlockEvents events);

}  // namespace rollcall::parallel::fsdp

#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/fsdp/communicator.h"
#include "trainer/distributed/fsdp/host_link.h"
#include "trainer/distributed/fsdp/options.h"
#include "trainer/distributed/fsdp/parameter_group.h"
#include "trainer/distributed/fsdp/schedule.h"
#include "trainer/distributed/process_group/mesh.h"
#include "trainer/torch.h"

namespace rollcall::parallel::fsdp {

/// A block of the model and the parameters that only it uses.
struct Block {
  std::string name;
  torch::nn::AnyModule* place = nullptr;  ///< the element of a Sequential that holds the block
  std::vector<Member> members;
};

struct Division {
  std::vector<Block> blocks;  ///< in the order in which Sequentials are registered
  std::vector<Member> rest;   ///< the root's parameters: those of no block or of several
};

/// Divides a model into blocks: the elements of its outermost Sequentials that have parameters. Those are the stages
/// and blocks of a ResNet, the layers of a transformer; what is inside a block stays together.
[[nodiscard]] Division divide(torch::nn::Module& root);

struct BlockEvents {
  std::function<at::Tensor(const at::Tensor& input)> before;
  std::function<void(const at::Tensor& output)> after;
};

/// Replaces `place` by a module that runs `events` around its forward (one tensor in, one out). The model's registered
/// children, names and parameters stay. Returns the former content, to be put back later.
[[nodiscard]] torch::nn::AnyModule wrap(torch::nn::AnyModule& place, BlockEvents events);

/// A module whose parameters, gradients and optimizer state are sharded over the ranks (FSDP): each rank holds 1/N of
/// every tensor, cut along dimension 0, and a block's parameters are unsharded only while it computes. The algorithm is
/// that of PyTorch's fully_shard ("FSDP2").
///
/// The module computes on the device of its parameters. Its shards are there too, or in main memory
/// (Options::cpu_offload).
///
/// The module's code, names and tensor objects stay; only the memory of its parameters is allocated and freed. While it
/// is freed, reading or writing a parameter throws a c10::Error that explains it. Main thread only, one forward and one
/// backward at a time; every rank runs the same blocks in the same order.
class ShardedModule {
 public:
  ShardedModule(const ShardedModule&) = delete;
  ShardedModule& operator=(const ShardedModule&) = delete;
  /// Leaves the module without values; gather() what is needed before.
  ~ShardedModule();

  /// Returns this rank's shards as leaves for an optimizer, by the module's names and in its order. A parameter that is
  /// registered twice has its first name. Shards may be empty. The optimizer may keep them.
  [[nodiscard]] torch::OrderedDict<std::string, at::Tensor> named_parameters() const;

  /// Runs `run`, which calls the module, and returns its result. With gradients enabled that is the loss, and one
  /// backward() must follow. Collective, as is that backward. Throws what LibTorch and c10d throw.
  [[nodiscard]] at::Tensor forward(const std::function<at::Tensor()>& run);

  /// Sets whether the next backward passes reduce gradients into the shards. While off, with Options::accumulate_whole,
  /// whole gradients add up on each rank until a backward with it on (gradient accumulation without communication).
  void set_gradient_sync(bool sync) { schedule_->set_reduce(sync || !options_.accumulate_whole); }
  void zero_grad();

  /// Returns this rank's part of parameter `name`; undefined if there is no such parameter.
  [[nodiscard]] at::Tensor shard(const std::string& name) const;
  /// Returns the index in dimension 0 of the whole parameter at which shard(name) begins.
  [[nodiscard]] std::int64_t first_row(const std::string& name) const;
  /// Returns the whole tensor of which `part`, of the same shape as shard(name), is this rank's part: the parameter
  /// itself or an optimizer's state for it. On rank 0 of the world; undefined elsewhere. Collective.
  [[nodiscard]] at::Tensor gather(const std::string& name, const at::Tensor& part) const;
  /// Returns this rank's part of a tensor of the whole parameter's shape, as a view. Not collective.
  [[nodiscard]] at::Tensor part_of(const std::string& name, const at::Tensor& whole) const;

  [[nodiscard]] const process_group::Mesh& mesh() const { return communicator_.mesh(); }
  [[nodiscard]] const Counters& counters() const { return communicator_.counters; }
  /// Returns the bytes of main memory that this rank keeps for unsharded parameters and pending gradients, in use or
  /// not.
  [[nodiscard]] std::size_t pool_bytes() const { return memory_.held(); }
  void reset_counters();
  /// Returns the bytes of unsharded parameters of each block, the root's first (0 if it has none), with padding.
  [[nodiscard]] std::vector<std::int64_t> unsharded_bytes_of_blocks() const;

 private:
  friend Result<std::unique_ptr<ShardedModule>> fully_shard(std::shared_ptr<torch::nn::Module>, process_group::Mesh,
                                                            const Options&);
  ShardedModule(std::shared_ptr<torch::nn::Module> module, process_group::Mesh mesh, const Options& options);

  struct Location {
    ParameterGroup* group;
    std::size_t index;
  };
  void make_groups();
  void wrap_block(Block& block, ParameterGroup& group);
  void index_parameters();

  std::shared_ptr<torch::nn::Module> module_;
  Options options_;
  Communicator communicator_;
  UnshardedMemory memory_;                 ///< on the device of the module's parameters
  std::optional<HostLink> host_link_;      ///< set with Options::cpu_offload
  std::optional<c10::Stream> reductions_;  ///< stream of reductions; unset on the CPU
  std::unique_ptr<ParameterGroup> root_;   ///< null if the blocks have all parameters
  std::vector<std::unique_ptr<ParameterGroup>> blocks_;
  std::vector<std::pair<torch::nn::AnyModule*, torch::nn::AnyModule>> replaced_;
  std::map<std::string, Location> locations_;  ///< by every name, also the further names of shared parameters
  std::unique_ptr<Schedule> schedule_;
};

/// Shards `module` over `mesh`. All ranks pass modules of equal structure and values; not collective itself. Errors
/// (Internal): parameters are on several devices, or on one for which the mesh's groups have no backend; one cannot be
/// cut along dimension 0; a block mixes types. Not run on hardware other than CPUs.
[[nodiscard]] Result<std::unique_ptr<ShardedModule>> fully_shard(std::shared_ptr<torch::nn::Module> module,
                                                                 process_group::Mesh mesh, const Options& options);

}  // namespace rollcall::parallel::fsdp

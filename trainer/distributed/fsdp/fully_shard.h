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

/// A module whose parameters, gradients and optimizer state are divided among ranks (FSDP): each rank holds 1/N of
/// every tensor, cut along dimension 0, and a block's parameters are unsharded only while it computes. The algorithm is
/// that of PyTorch's fully_shard ("FSDP2").
///
/// The module computes on the device of its parameters. There its shards live, or in main memory
/// (Options::cpu_offload).
///
/// The module's code stays as it is, and so do its names and tensor objects; only the memory of its parameters comes
/// and goes. While it is away, reading or writing one of them throws c10::Error and says so. Main thread only, one
/// forward and one backward at a time; every rank runs the same blocks in the same order.
class ShardedModule {
 public:
  ShardedModule(const ShardedModule&) = delete;
  ShardedModule& operator=(const ShardedModule&) = delete;
  /// Leaves the module without values: gather what is needed first.
  ~ShardedModule();

  /// This rank's shards as leaves for an optimizer, by the module's names and in its order; a parameter that is
  /// registered twice appears under its first name. Shards may be empty. The optimizer may keep them.
  [[nodiscard]] torch::OrderedDict<std::string, at::Tensor> named_parameters() const;

  /// Runs `run`, which calls the module, and returns its result; with gradients enabled that is the loss, to be
  /// followed by one backward(). Collective, as is that backward. Throws what LibTorch and c10d throw.
  [[nodiscard]] at::Tensor forward(const std::function<at::Tensor()>& run);

  /// Whether the next backward passes reduce gradients into the shards. Off, and with Options::accumulate_whole: they
  /// add up on each rank, whole, until a backward with it on (gradient accumulation without communication).
  void set_gradient_sync(bool sync) { schedule_->set_reduce(sync || !options_.accumulate_whole); }
  void zero_grad();

  /// This rank's part of a parameter; undefined where `name` is none.
  [[nodiscard]] at::Tensor shard(const std::string& name) const;
  /// Where in dimension 0 of the whole parameter shard(name) begins.
  [[nodiscard]] std::int64_t first_row(const std::string& name) const;
  /// The whole tensor of which `part`, of the same shape as shard(name), is this rank's: the parameter itself or an
  /// optimizer's state for it. On rank 0 of the world, undefined elsewhere. Collective.
  [[nodiscard]] at::Tensor gather(const std::string& name, const at::Tensor& part) const;
  /// This rank's part of a tensor of the whole parameter's shape; a view. Not collective.
  [[nodiscard]] at::Tensor part_of(const std::string& name, const at::Tensor& whole) const;

  [[nodiscard]] const process_group::Mesh& mesh() const { return communicator_.mesh(); }
  [[nodiscard]] const Counters& counters() const { return communicator_.counters; }
  /// Bytes of main memory that this rank keeps for unsharded parameters and for gradients on their way, in use or not.
  [[nodiscard]] std::size_t pool_bytes() const { return memory_.held(); }
  void reset_counters();
  /// Bytes of unsharded parameters by block, the root's first (0 where it has none), padding included.
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
  std::optional<HostLink> host_link_;      ///< with Options::cpu_offload
  std::optional<c10::Stream> reductions_;  ///< where another device than the CPU computes
  std::unique_ptr<ParameterGroup> root_;   ///< null where blocks own everything
  std::vector<std::unique_ptr<ParameterGroup>> blocks_;
  std::vector<std::pair<torch::nn::AnyModule*, torch::nn::AnyModule>> replaced_;
  std::map<std::string, Location> locations_;  ///< every name, of shared parameters too
  std::unique_ptr<Schedule> schedule_;
};

/// Divides `module` over `mesh`. All ranks give modules of equal structure and values; not collective itself. Errors
/// (Internal): parameters are on several devices, or on one that the mesh's groups have no backend for; one cannot be
/// cut along dimension 0; a block mixes types. Other devices than the CPU: not run on hardware.
[[nodiscard]] Result<std::unique_ptr<ShardedModule>> fully_shard(std::shared_ptr<torch::nn::Module> module,
                                                                 process_group::Mesh mesh, const Options& options);

}  // namespace rollcall::parallel::fsdp

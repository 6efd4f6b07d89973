#include "trainer/distributed/fsdp/fully_shard.h"

#include <malloc.h>
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "trainer/distributed/fsdp/unsharded_memory.h"
#include "trainer/streams.h"

namespace rollcall::parallel::fsdp {
namespace {

class WrappedImpl : public torch::nn::Module {
 public:
  WrappedImpl(torch::nn::AnyModule inner, BlockEvents events) : inner_(std::move(inner)), events_(std::move(events)) {}

  at::Tensor forward(const at::Tensor& input) {
    at::Tensor output = inner_.forward(events_.before(input));
    events_.after(output);
    return output;
  }

 private:
  torch::nn::AnyModule inner_;
  BlockEvents events_;
};

struct BlockLocation {
  std::string name;
  torch::nn::AnyModule* element;
};

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// Collects the elements of the outermost Sequentials.
void find_blocks(torch::nn::Module& module, const std::string& prefix, std::vector<BlockLocation>& places) {
  if (auto* const sequential = module.as<torch::nn::SequentialImpl>()) {
    const auto children = module.named_children();
    std::size_t i = 0;
    for (torch::nn::AnyModule& element : *sequential) {
      places.push_back({joined(prefix, children.keys().at(i)), &element});
      ++i;
    }
    return;
  }
  for (const auto& child : module.named_children()) {
    find_blocks(*child.value(), joined(prefix, child.key()), places);
  }
}

bool is_batch_norm(const torch::nn::Module& module) {
  return module.as<torch::nn::BatchNorm1dImpl>() != nullptr || module.as<torch::nn::BatchNorm2dImpl>() != nullptr ||
         module.as<torch::nn::BatchNorm3dImpl>() != nullptr;
}

using Impl = const void*;

void collect(const torch::nn::Module& module, const std::string& prefix, std::vector<Member>& members,
             std::set<Impl>& seen) {
  for (const auto& entry : module.named_parameters(/*recurse=*/false)) {
    if (seen.insert(entry.value().unsafeGetTensorImpl()).second) {
      members.push_back({joined(prefix, entry.key()), entry.value(), is_batch_norm(module)});
    }
  }
  for (const auto& child : module.named_children()) {
    collect(*child.value(), joined(prefix, child.key()), members, seen);
  }
}

/// Counts the users of each parameter: `places` and the rest of the model.
std::map<Impl, int> users_of(const std::vector<BlockLocation>& places) {
  std::map<Impl, int> users;
  for (const BlockLocation& place : places) {
    std::set<Impl> of_this;
    for (const at::Tensor& parameter : place.element->ptr()->parameters()) {
      of_this.insert(parameter.unsafeGetTensorImpl());
    }
    for (const Impl impl : of_this) {
      users[impl] += 1;
    }
  }
  return users;
}

/// Collects the parameters registered outside of all places.
void collect_outside(const torch::nn::Module& module, const std::set<const torch::nn::Module*>& inside,
                     std::set<Impl>& outside) {
  if (inside.contains(&module)) {
    return;
  }
  for (const at::Tensor& parameter : module.parameters(/*recurse=*/false)) {
    outside.insert(parameter.unsafeGetTensorImpl());
  }
  for (const std::shared_ptr<torch::nn::Module>& child : module.children()) {
    collect_outside(*child, inside, outside);
  }
}

}  // namespace

Division divide(torch::nn::Module& root) {
  std::vector<BlockLocation> places;
  find_blocks(root, "", places);
  const std::map<Impl, int> users = users_of(places);
  std::set<const torch::nn::Module*> inside;
  for (const BlockLocation& place : places) {
    inside.insert(place.element->ptr().get());
  }
  std::set<Impl> outside;
  collect_outside(root, inside, outside);

  Division division;
  std::set<Impl> taken;
  for (const BlockLocation& place : places) {
    Block block{.name = place.name, .place = place.element, .members = {}};
    std::vector<Member> all;
    std::set<Impl> seen;
    collect(*place.element->ptr(), place.name, all, seen);
    for (Member& member : all) {
      const Impl impl = member.tensor.unsafeGetTensorImpl();
      if (users.at(impl) == 1 && !outside.contains(impl)) {
        taken.insert(impl);
        block.members.push_back(std::move(member));
      }
    }
    if (!block.members.empty()) {
      division.blocks.push_back(std::move(block));
    }
  }
  collect(root, "", division.rest, taken);
  return division;
}

torch::nn::AnyModule wrap(torch::nn::AnyModule& place, BlockEvents events) {
  torch::nn::AnyModule before = place;
  place = torch::nn::AnyModule(std::make_shared<WrappedImpl>(before, std::move(events)));
  return before;
}

namespace {

c10::Device device_of(const torch::nn::Module& module) {
  const std::vector<at::Tensor> parameters = module.parameters();
  return parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
}

/// Checks that the groups have a backend for each device of shards and unsharded parameters, which gathers, reductions
/// and checkpoints need.
void check_backends(const process_group::Mesh& mesh, c10::DeviceType type) {
  for (const process_group::Group& group : {mesh.world, mesh.shard, mesh.replicate, mesh.reshard}) {
    if (group) {
      const std::vector<c10::Device> devices = group->getDeviceTypes();
      TORCH_CHECK(
          std::any_of(devices.begin(), devices.end(), [&](const c10::Device& device) { return device.type() == type; }),
          "the ranks' backend carries no tensors of ", type);
    }
  }
}

/// Gathers the tensor whose rows the ranks of `group` hold on its rank 0, in `part`'s type and with the sizes and
/// strides of `like` (whose values are not read); undefined elsewhere. `part` has this rank's rows in any memory
/// layout. Collective; each shard is sent once. Throws what c10d throws.
at::Tensor gather_rows(const process_group::Group& group, const at::Tensor& like, const RowShards& rows,
                       const at::Tensor& part) {
  const torch::NoGradGuard no_grad;
  const auto rank = static_cast<std::int64_t>(process_group::rank_of(group));
  at::Tensor mine = at::zeros({rows.padded_numel()}, part.options().requires_grad(false));
  shard_view(mine, like, rows, rank, 0).copy_(part.detach());
  std::vector<at::Tensor> parts{mine};
  if (group) {
    std::vector<std::vector<at::Tensor>> outputs;
    if (rank == 0) {
      parts.clear();
      for (int i = 0; i < group->getSize(); ++i) {
        parts.push_back(at::empty_like(mine));
      }
      outputs.push_back(parts);
    }
    std::vector<at::Tensor> inputs{mine};
    group->gather(outputs, inputs)->wait();
  }
  if (rank != 0) {
    return {};
  }
  at::Tensor all = at::empty_strided(like.sizes(), like.strides(), mine.options());
  const auto element = static_cast<std::int64_t>(all.element_size());
  for (std::size_t r = 0; r < parts.size(); ++r) {
    const auto from = static_cast<std::int64_t>(r);
    copy_pieces(all, parts[r], {{rows.offset_of(from) * element, 0, rows.numel_of(from) * element}});
  }
  return all;
}

}  // namespace

ShardedModule::ShardedModule(std::shared_ptr<torch::nn::Module> module, process_group::Mesh mesh,
                             const Options& options)
    : module_(std::move(module)),
      options_(options),
      communicator_(std::move(mesh), options_),
      memory_(device_of(*module_)) {
  check_backends(communicator_.mesh(), memory_.device().type());
  if (options_.cpu_offload) {
    check_backends(communicator_.mesh(), at::kCPU);
    host_link_.emplace(memory_, communicator_.counters);
  }
  if (!memory_.device().is_cpu()) {
    reductions_ = new_stream(memory_.device());
  }
  make_groups();
  index_parameters();
}

ShardedModule::~ShardedModule() {
  for (auto& [place, before] : replaced_) {
    *place = std::move(before);
  }
}

void ShardedModule::make_groups() {
  HostLink* const host_link = host_link_ ? &*host_link_ : nullptr;
  const GroupContext context{communicator_, memory_, host_link, reductions_, options_};
  Division division = divide(*module_);
  std::vector<ParameterGroup*> order;
  if (!division.rest.empty()) {
    root_ = std::make_unique<ParameterGroup>(context, "root", std::move(division.rest));
    order.push_back(root_.get());
  }
  for (Block& block : division.blocks) {
    blocks_.push_back(std::make_unique<ParameterGroup>(context, block.name, std::move(block.members)));
    order.push_back(blocks_.back().get());
  }
  schedule_ = std::make_unique<Schedule>(options_, std::move(order), root_.get(), host_link, reductions_);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    wrap_block(division.blocks[i], *blocks_[i]);
  }
  malloc_trim(0);  // the whole model was allocated until now, and malloc keeps freed memory
}

void ShardedModule::wrap_block(Block& block, ParameterGroup& group) {
  BlockEvents events;
  events.before = [this, &group](const at::Tensor& input) {
    schedule_->before_block(group);
    const bool converts = options_.parameter_type && input.is_floating_point();
    return converts ? input.to(*options_.parameter_type) : input;
  };
  events.after = [this, &group](const at::Tensor& output) { schedule_->after_block(group, output); };
  torch::nn::AnyModule before = wrap(*block.place, std::move(events));
  replaced_.emplace_back(block.place, std::move(before));
}

void ShardedModule::index_parameters() {
  std::map<const void*, Location> by_tensor;
  const auto add = [&](ParameterGroup& group) {
    for (std::size_t i = 0; i < group.size(); ++i) {
      by_tensor[group.unsharded(i).unsafeGetTensorImpl()] = {&group, i};
    }
  };
  if (root_) {
    add(*root_);
  }
  for (const std::unique_ptr<ParameterGroup>& block : blocks_) {
    add(*block);
  }
  for (const auto& entry : module_->named_parameters()) {
    locations_.emplace(entry.key(), by_tensor.at(entry.value().unsafeGetTensorImpl()));
  }
}

torch::OrderedDict<std::string, at::Tensor> ShardedModule::named_parameters() const {
  torch::OrderedDict<std::string, at::Tensor> shards;
  std::set<const void*> seen;
  for (const auto& entry : module_->named_parameters()) {
    if (seen.insert(entry.value().unsafeGetTensorImpl()).second) {
      shards.insert(entry.key(), shard(entry.key()));
    }
  }
  return shards;
}

at::Tensor ShardedModule::forward(const std::function<at::Tensor()>& run) {
  schedule_->begin_forward();
  at::Tensor result = run();
  schedule_->end_forward(result);
  return result;
}

void ShardedModule::zero_grad() {
  if (root_) {
    root_->gradients().zero();
  }
  for (const std::unique_ptr<ParameterGroup>& block : blocks_) {
    block->gradients().zero();
  }
}

at::Tensor ShardedModule::shard(const std::string& name) const {
  const auto found = locations_.find(name);
  return found == locations_.end() ? at::Tensor() : found->second.group->shard(found->second.index);
}

std::int64_t ShardedModule::first_row(const std::string& name) const {
  const Location& location = locations_.at(name);
  return location.group->rows(location.index).first_row(communicator_.rank());
}

at::Tensor ShardedModule::gather(const std::string& name, const at::Tensor& part) const {
  const Location& location = locations_.at(name);
  const process_group::Mesh& mesh = communicator_.mesh();
  if (process_group::rank_of(mesh.replicate) != 0) {
    return {};  // another row of the mesh has the same values
  }
  return gather_rows(mesh.shard, location.group->unsharded(location.index), location.group->rows(location.index), part);
}

at::Tensor ShardedModule::part_of(const std::string& name, const at::Tensor& whole) const {
  const Location& location = locations_.at(name);
  const RowShards& rows = location.group->rows(location.index);
  const at::Tensor with_rows = whole.dim() == 0 ? whole.reshape({1}) : whole;
  return with_rows.narrow(0, rows.first_row(communicator_.rank()), rows.rows_of(communicator_.rank()));
}

void ShardedModule::reset_counters() {
  const std::int64_t held = communicator_.counters.unsharded_bytes;
  communicator_.counters = Counters{};
  communicator_.counters.unsharded_bytes = held;
  communicator_.counters.peak_unsharded_bytes = held;
}

std::vector<std::int64_t> ShardedModule::unsharded_bytes_of_blocks() const {
  std::vector<std::int64_t> bytes{root_ ? root_->unsharded_bytes() : 0};
  for (const std::unique_ptr<ParameterGroup>& block : blocks_) {
    bytes.push_back(block->unsharded_bytes());
  }
  return bytes;
}

Result<std::unique_ptr<ShardedModule>> fully_shard(std::shared_ptr<torch::nn::Module> module, process_group::Mesh mesh,
                                                   const Options& options) {
  try {
    return std::unique_ptr<ShardedModule>(new ShardedModule(std::move(module), std::move(mesh), options));
  } catch (const c10::Error& error) {
    return fail("--parallel", "fsdp", error.what_without_backtrace(), "--parallel=ddp", ErrorKind::Internal);
  }
}

}  // namespace rollcall::parallel::fsdp

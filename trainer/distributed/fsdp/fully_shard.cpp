#include "trainer/distributed/fsdp/fully_shard.h"

#include <malloc.h>
#include <algorithm>
#include <set>
#include <utility>

#include "trainer/distributed/fsdp/gather_whole.h"

namespace rollcall::parallel::fsdp {
namespace {

c10::Device device_of(const torch::nn::Module& module) {
  const std::vector<at::Tensor> parameters = module.parameters();
  return parameters.empty() ? c10::Device(c10::kCPU) : parameters.front().device();
}

/// Gathers, reductions and checkpoints need a back end for each device that shards or whole parameters are on.
void check_back_ends(const process_group::Mesh& mesh, c10::DeviceType type) {
  for (const process_group::Group& group : {mesh.world, mesh.shard, mesh.replicate, mesh.reshard}) {
    if (group) {
      const std::vector<c10::Device> devices = group->getDeviceTypes();
      TORCH_CHECK(
          std::any_of(devices.begin(), devices.end(), [&](const c10::Device& device) { return device.type() == type; }),
          "the ranks' back end carries no tensors of ", type);
    }
  }
}

}  // namespace

ShardedModule::ShardedModule(std::shared_ptr<torch::nn::Module> module, process_group::Mesh mesh,
                             const Options& options)
    : module_(std::move(module)),
      options_(options),
      communicator_(std::move(mesh), options_),
      memory_(device_of(*module_)) {
  check_back_ends(communicator_.mesh(), memory_.device().type());
  if (options_.cpu_offload) {
    check_back_ends(communicator_.mesh(), at::kCPU);
    host_link_.emplace(memory_, communicator_.counters);
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
  const GroupContext context{communicator_, memory_, host_link, options_};
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
  schedule_ = std::make_unique<Schedule>(options_, std::move(order), root_.get(), host_link);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    wrap_block(division.blocks[i], *blocks_[i]);
  }
  malloc_trim(0);  // the whole model was there until now, and malloc keeps what is freed
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
      by_tensor[group.whole(i).unsafeGetTensorImpl()] = {&group, i};
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
    root_->zero_grad();
  }
  for (const std::unique_ptr<ParameterGroup>& block : blocks_) {
    block->zero_grad();
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
    return {};  // another row of the mesh has the same
  }
  return gather_whole(mesh.shard, location.group->whole(location.index), location.group->rows(location.index), part);
}

at::Tensor ShardedModule::part_of(const std::string& name, const at::Tensor& whole) const {
  const Location& location = locations_.at(name);
  const RowShards& rows = location.group->rows(location.index);
  const at::Tensor with_rows = whole.dim() == 0 ? whole.reshape({1}) : whole;
  return with_rows.narrow(0, rows.first_row(communicator_.rank()), rows.rows_of(communicator_.rank()));
}

void ShardedModule::reset_counters() {
  const std::int64_t held = communicator_.counters.whole_bytes;
  communicator_.counters = Counters{};
  communicator_.counters.whole_bytes = held;
  communicator_.counters.peak_whole_bytes = held;
}

std::vector<std::int64_t> ShardedModule::whole_bytes() const {
  std::vector<std::int64_t> bytes{root_ ? root_->whole_bytes() : 0};
  for (const std::unique_ptr<ParameterGroup>& block : blocks_) {
    bytes.push_back(block->whole_bytes());
  }
  return bytes;
}

Result<std::unique_ptr<ShardedModule>> fully_shard(std::shared_ptr<torch::nn::Module> module, process_group::Mesh mesh,
                                                   const Options& options) {
  try {
    return std::unique_ptr<ShardedModule>(new ShardedModule(std::move(module), std::move(mesh), options));
  } catch (const c10::Error& error) {
    return fail("--parallel", "fsdp", error.what_without_backtrace(), "--parallel=ddp", ExitCode::Internal);
  }
}

}  // namespace rollcall::parallel::fsdp

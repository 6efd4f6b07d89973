#include <string>

#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

using settings::Settings;

/// Returns the type, or nothing for the model's own type.
std::optional<at::ScalarType> type_of(const std::string& name) {
  if (name == "bf16") {
    return at::kBFloat16;
  }
  return name == "fp16" ? std::optional(at::kHalf) : std::nullopt;
}

std::size_t mebibytes(double number) { return static_cast<std::size_t>(number * (1 << 20)); }

parallel::DataParallelOptions data_parallel_options(const Settings& settings) {
  parallel::DataParallelOptions options;
  options.find_unused_parameters = settings.on("find-unused-parameters");
  options.static_graph = settings.on("static-graph");
  options.compression = type_of(settings.text("gradient-compression"));
  options.broadcast_buffers = settings.on("broadcast-buffers");
  options.first_bucket_bytes = mebibytes(settings.number("first-bucket"));
  options.bucket_bytes = mebibytes(settings.number("bucket"));
  return options;
}

}  // namespace

Result<ParallelConfig> make_parallel_config(const settings::Settings& settings) {
  ParallelConfig config;
  config.sync_batch_norms = settings.on("sync-bn");
  const std::string& graphs = settings.text("cuda-graph");
  config.graphs = graphs == "on" ? StepGraphs::On : graphs == "off" ? StepGraphs::Off : StepGraphs::Auto;
  parallel::ReplicaOptions& options = config.replica;
  options.sharded = settings.text("parallel") == "fsdp";
  options.exact.virtual_ranks = settings.integer("elastic-exact");
  config.replicate_steps = settings.text("replicate-to") == "none" ? 0 : settings.integer("replicate-steps");
  options.data_parallel = data_parallel_options(settings);
  if (!options.sharded) {
    return config;
  }
  options.degrees.shard_degree = static_cast<std::uint32_t>(settings.integer("shard-degree"));
  options.degrees.replicate_degree = static_cast<std::uint32_t>(settings.integer("replicate-degree"));
  const std::string& reshard = settings.text("reshard-after-forward");
  if (reshard == "off") {
    options.sharding.after_forward = parallel::fsdp::AfterForward::Keep;
  } else if (reshard != "on") {
    options.sharding.after_forward = parallel::fsdp::AfterForward::SmallShard;
    options.degrees.reshard_degree = static_cast<std::uint32_t>(settings.integer("reshard-after-forward"));
  }
  options.sharding.cpu_offload = settings.on("cpu-offload");
  options.sharding.accumulate_whole = settings.text("accumulate") == "whole";
  if (settings.text("param-dtype") == "bf16" && settings.text("precision") == "fp16") {
    return fail("--param-dtype", "bf16", "contradicts --precision=fp16",
                "--precision=bf16, or leaving one of them out");
  }
  options.sharding.parameter_type = type_of(settings.text("param-dtype"));
  options.sharding.reduce_type = type_of(settings.text("reduce-dtype"));
  return config;
}

}  // namespace rollcall::config

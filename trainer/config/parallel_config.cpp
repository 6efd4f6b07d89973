#include <array>
#include <string>

#include "trainer/config/train_config.h"

namespace rollcall::config {
namespace {

using settings::Settings;

struct Fixed {
  const char* setting;
  const char* value;  ///< the only one that makes sense with the other kind of parallelism
};

constexpr std::array kOnlySharded{Fixed{"shard-degree", "0"},           Fixed{"replicate-degree", "0"},
                                  Fixed{"reshard-after-forward", "on"}, Fixed{"param-dtype", "fp32"},
                                  Fixed{"reduce-dtype", "fp32"},        Fixed{"accumulate", "whole"},
                                  Fixed{"cpu-offload", "false"},        Fixed{"replicate-to", "none"}};

constexpr std::array kOnlyReplicated{
    Fixed{"find-unused-parameters", "false"}, Fixed{"static-graph", "false"}, Fixed{"broadcast-buffers", "true"},
    Fixed{"gradient-compression", "none"},    Fixed{"first-bucket", "1"},     Fixed{"bucket", "25"}};

/// Of --elastic-exact, which knows no buckets, and computes virtual ranks one after the other.
constexpr std::array kNotExact{Fixed{"find-unused-parameters", "false"},
                               Fixed{"static-graph", "false"},
                               Fixed{"broadcast-buffers", "true"},
                               Fixed{"gradient-compression", "none"},
                               Fixed{"first-bucket", "1"},
                               Fixed{"bucket", "25"},
                               Fixed{"sync-bn", "false"},
                               Fixed{"parallel", "ddp"}};

/// `choice`: the setting that leaves no choice. `other`: the value of it that would, as an option.
template <std::size_t N>
Result<void> check_fixed(const Settings& settings, const std::array<Fixed, N>& fixed, const std::string& choice,
                         const std::string& other) {
  for (const auto& [setting, value] : fixed) {
    if (settings.text(setting) != value) {
      return fail(std::string("--") + setting, settings.text(setting),
                  "has no meaning with --" + choice + "=" + settings.text(choice), other + ", or leaving it out");
    }
  }
  return {};
}

/// Nothing for the model's own type.
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

/// 0: none.
Result<std::int64_t> replicate_steps(const Settings& settings) {
  if (settings.text("replicate-to") == "none") {
    return settings.is_default("replicate-steps")
               ? Result<std::int64_t>(0)
               : fail("--replicate-steps", settings.text("replicate-steps"), "has no meaning without --replicate-to",
                      "--replicate-to=neighbour");
  }
  if (!settings.on("elastic")) {
    return fail("--replicate-to", settings.text("replicate-to"), "is for ranks that live on, which --elastic is about",
                "--elastic, or leaving it out");
  }
  return settings.integer("replicate-steps");
}

}  // namespace

Result<ParallelConfig> make_parallel_config(const settings::Settings& settings) {
  ParallelConfig config;
  config.sync_batch_norms = settings.on("sync-bn");
  const std::string& graphs = settings.text("cuda-graph");
  config.graphs = graphs == "on" ? StepGraphs::On : graphs == "off" ? StepGraphs::Off : StepGraphs::Auto;
  parallel::ReplicaOptions& options = config.replica;
  options.sharded = settings.text("parallel") == "fsdp";
  Result<void> checked = options.sharded ? check_fixed(settings, kOnlyReplicated, "parallel", "--parallel=ddp")
                                         : check_fixed(settings, kOnlySharded, "parallel", "--parallel=fsdp");
  options.exact.virtual_ranks = settings.integer("elastic-exact");
  if (options.exact.virtual_ranks == 0 && !settings.is_default("elastic-exact-threads")) {
    return fail("--elastic-exact-threads", settings.text("elastic-exact-threads"),
                "has no meaning without --elastic-exact", "--elastic-exact=N");
  }
  if (checked && options.exact.virtual_ranks > 0) {
    checked = check_fixed(settings, kNotExact, "elastic-exact", "--elastic-exact=0");
  }
  if (!checked) {
    return checked.error();
  }
  ASSIGN_OR_RETURN(const std::int64_t steps, replicate_steps(settings));
  config.replicate_steps = steps;
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

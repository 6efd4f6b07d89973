#include "trainer/train/replica_options.h"

#include <array>
#include <optional>
#include <string>

namespace rollcall::train {
namespace {

struct Fixed {
  const char* setting;
  const char* value;  ///< the only one that makes sense with the other kind of parallelism
};

constexpr std::array kOnlySharded{Fixed{"shard-degree", "0"},           Fixed{"replicate-degree", "0"},
                                  Fixed{"reshard-after-forward", "on"}, Fixed{"param-dtype", "fp32"},
                                  Fixed{"reduce-dtype", "fp32"},        Fixed{"accumulate", "whole"},
                                  Fixed{"cpu-offload", "false"}};

constexpr std::array kOnlyReplicated{
    Fixed{"find-unused-parameters", "false"}, Fixed{"static-graph", "false"}, Fixed{"broadcast-buffers", "true"},
    Fixed{"gradient-compression", "none"},    Fixed{"first-bucket", "1"},     Fixed{"bucket", "25"}};

template <std::size_t N>
Result<void> check_fixed(const settings::Settings& settings, const std::array<Fixed, N>& fixed, const char* kind) {
  for (const auto& [setting, value] : fixed) {
    if (settings.text(setting) != value) {
      return fail(std::string("--") + setting, settings.text(setting),
                  "has no meaning with --parallel=" + settings.text("parallel"),
                  std::string("--parallel=") + kind + ", or leaving it out");
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

parallel::DataParallelOptions data_parallel_options(const settings::Settings& settings) {
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

Result<parallel::ReplicaOptions> replica_options(const settings::Settings& settings) {
  parallel::ReplicaOptions options;
  options.sharded = settings.text("parallel") == "fsdp";
  const Result<void> checked =
      options.sharded ? check_fixed(settings, kOnlyReplicated, "ddp") : check_fixed(settings, kOnlySharded, "fsdp");
  if (!checked) {
    return checked.error();
  }
  options.data_parallel = data_parallel_options(settings);
  if (!options.sharded) {
    return options;
  }
  options.degrees.shard_degree = static_cast<std::uint32_t>(settings.integer("shard-degree"));
  options.degrees.replicate_degree = static_cast<std::uint32_t>(settings.integer("replicate-degree"));
  const std::string reshard = settings.text("reshard-after-forward");
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
  return options;
}

}  // namespace rollcall::train

#include "trainer/train/replica_options.h"

#include <array>
#include <chrono>
#include <optional>
#include <string>

namespace rollcall::train {
namespace {

struct Fixed {
  const char* setting;
  const char* value;  ///< the only one that makes sense without sharding
};

constexpr std::array kOnlySharded{Fixed{"shard-degree", "0"},           Fixed{"replicate-degree", "0"},
                                  Fixed{"reshard-after-forward", "on"}, Fixed{"param-dtype", "fp32"},
                                  Fixed{"reduce-dtype", "fp32"},        Fixed{"accumulate", "whole"}};

Result<void> check_not_sharded(const settings::Settings& settings) {
  for (const auto& [setting, value] : kOnlySharded) {
    if (settings.text(setting) != value) {
      return fail(std::string("--") + setting, settings.text(setting),
                  "has no meaning with --parallel=" + settings.text("parallel"), "--parallel=fsdp, or leaving it out");
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

}  // namespace

Result<parallel::ReplicaOptions> replica_options(const settings::Settings& settings) {
  parallel::ReplicaOptions options;
  options.sharded = settings.text("parallel") == "fsdp";
  if (!options.sharded) {
    const Result<void> checked = check_not_sharded(settings);
    return checked ? Result<parallel::ReplicaOptions>(options) : checked.error();
  }
  options.groups.backend = settings.text("backend");
  options.groups.timeout =
      std::chrono::milliseconds(static_cast<std::int64_t>(settings.number("collective-timeout") * 1000));
  options.degrees.shard_degree = static_cast<std::uint32_t>(settings.integer("shard-degree"));
  options.degrees.replicate_degree = static_cast<std::uint32_t>(settings.integer("replicate-degree"));
  const std::string reshard = settings.text("reshard-after-forward");
  if (reshard == "off") {
    options.sharding.after_forward = parallel::fsdp::AfterForward::Keep;
  } else if (reshard != "on") {
    options.sharding.after_forward = parallel::fsdp::AfterForward::SmallShard;
    options.degrees.reshard_degree = static_cast<std::uint32_t>(settings.integer("reshard-after-forward"));
  }
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

#include "trainer/checkpoint/init_from.h"

#include <exception>
#include <utility>

#include "trainer/checkpoint/model_state.h"
#include "trainer/checkpoint/read_plan.h"
#include "trainer/model/state.h"

namespace rollcall::checkpoint {
namespace {

/// What the keys of the last layer begin with: "fc." of "fc.bias".
std::string prefix_of_last_layer(const torch::nn::Module& model) {
  const std::vector<std::string> keys = model::state_keys(model);
  const std::string last = keys.empty() ? "" : keys.back();
  return last.substr(0, last.rfind('.') + 1);
}

struct Plan {
  ReadPlan reads;
  std::vector<std::string> left_out;
};

Result<Plan> plan_init(const format::CheckpointReader& reader, const torch::nn::Module& model,
                       const Sharding* sharding) {
  Plan plan;
  const std::string last_layer = prefix_of_last_layer(model);
  for (const auto& entry : model::named_state(model)) {
    const auto shard = sharding != nullptr ? sharding->shard(entry.key()) : std::nullopt;
    const at::Tensor& target = shard ? shard->rows : entry.value();
    const format::ManifestEntry* const source = reader.find(model_path(entry.key()));
    const std::string how = difference(entry.key(), entry.value().sizes(), target.scalar_type(), source);
    if (how.empty()) {
      plan.reads.fill(target, *source, shard ? shard->first_row : 0);
    } else if (entry.key().starts_with(last_layer)) {
      plan.left_out.push_back(how);
    } else {
      return fail("--init-from", reader.path(), "is of another model: " + how,
                  "the --model that it was made with; only the last layer may differ", ExitCode::Mismatch);
    }
  }
  return plan;
}

Result<std::vector<std::string>> init(const std::string& path, const torch::nn::Module& model, const Sharding* sharding,
                                      format::VerifyLevel level, format::RankGroup& group) {
  Plan plan;
  const auto read = [&]() -> Result<void> {
    const auto reader = format::CheckpointReader::open(path);
    if (!reader) {
      return reader.error();
    }
    auto planned = plan_init(*reader, model, sharding);
    if (!planned) {
      return planned.error();
    }
    plan = *std::move(planned);
    return plan.reads.read(*reader, level);
  };
  if (Result<void> agreed = format::agree(group, read()); !agreed) {
    Error error = agreed.error();
    error.setting = "--init-from";
    return error;
  }
  plan.reads.carry_out();
  return std::move(plan.left_out);
}

}  // namespace

Result<std::vector<std::string>> init_from(const std::string& path, const torch::nn::Module& model,
                                           const Sharding* sharding, format::VerifyLevel level,
                                           format::RankGroup& group) {
  try {
    return init(path, model, sharding, level, group);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return fail("--init-from", path, text.substr(0, text.find('\n')), "reporting this", ExitCode::Internal);
  }
}

}  // namespace rollcall::checkpoint

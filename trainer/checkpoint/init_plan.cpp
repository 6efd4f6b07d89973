#include "trainer/checkpoint/init_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/model/state.h"

namespace rollcall::checkpoint {
namespace {

using format::schema::kModel;
using format::schema::model_path;

/// What the keys of the last layer begin with: "fc." of "fc.bias".
std::string prefix_of_last_layer(const std::vector<std::string>& keys) {
  const std::string last = keys.empty() ? "" : keys.back();
  return last.substr(0, last.rfind('.') + 1);
}

/// What is before the model's keys in `source`: what most are found with, of equals the first.
std::string prefix_in(const format::CheckpointSource& source, const std::vector<std::string>& keys) {
  constexpr int kMostParts = 8;  // of a key
  const std::set<std::string_view> ours(keys.begin(), keys.end());
  struct Count {
    std::size_t first = 0;
    std::size_t keys = 0;
  };
  std::map<std::string, Count> counts{{"", {}}};
  for (const format::ManifestEntry& entry : source.datasets()) {
    const auto key = entry.name.starts_with(kModel) ? std::string_view(entry.state_dict_key) : std::string_view();
    std::size_t begin = key.size();
    for (int part = 0; part < kMostParts && begin > 0; ++part) {
      begin = begin < 2 ? 0 : key.rfind('.', begin - 2) + 1;  // behind the dot before, or 0
      if (ours.contains(key.substr(begin))) {
        ++counts.try_emplace(std::string(key.substr(0, begin)), Count{counts.size(), 0}).first->second.keys;
      }
    }
  }
  return std::ranges::max_element(
             counts, {},
             [](const auto& one) { return std::pair(one.second.keys, -static_cast<std::ptrdiff_t>(one.second.first)); })
      ->first;
}

}  // namespace

Result<InitPlan> plan_init(const format::CheckpointSource& source, const torch::nn::Module& model,
                           const Sharding* sharding) {
  InitPlan plan;
  const std::vector<std::string> keys = model::state_keys(model);
  const std::string last_layer = prefix_of_last_layer(keys);
  const std::string prefix = prefix_in(source, keys);
  std::set<std::string> changes;
  for (const auto& entry : model::named_state(model)) {
    const std::string& key = entry.key();
    const auto shard = sharding != nullptr ? sharding->shard(key) : std::nullopt;
    const at::Tensor& target = shard ? shard->rows : entry.value();
    const format::ManifestEntry* const stored = source.find(model_path(prefix + key));
    const auto type = stored != nullptr ? format::dtype_from_name(stored->type) : std::nullopt;
    if (type && entry.value().sizes() == at::IntArrayRef(stored->shape)) {
      plan.reads.fill(target, *stored, shard ? shard->first_row : 0);
      if (scalar_type(*type) != target.scalar_type()) {
        changes.insert(
            fmt::format("{} taken as {}", stored->type, format::dtype_name(format_dtype(target.scalar_type()))));
      }
    } else if (stored == nullptr && key.ends_with(".num_batches_tracked")) {
      changes.insert("num_batches_tracked, which it lacks, from 0 on");
    } else if (const std::string how = difference(key, entry.value().sizes(), target.scalar_type(), stored);
               key.starts_with(last_layer)) {
      plan.info.left_out.push_back(how);
    } else {
      return fail("--init-from", source.path(), "is of another model: " + how,
                  "the --model that it was made with; only the last layer may differ", ExitCode::Mismatch);
    }
  }
  if (!prefix.empty()) {
    changes.insert(fmt::format("\"{}\" before its names taken off", prefix));
  }
  plan.info.changes.assign(changes.begin(), changes.end());
  return plan;
}

}  // namespace rollcall::checkpoint

#include "trainer/checkpoint/init_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/model/state.h"

namespace rollcall::checkpoint {
namespace {

using format::schema::kModel;
using format::schema::model_path;

constexpr std::size_t kLongestShown = 200;  ///< characters of a prefix

/// Returns the beginning of the last layer's keys: "fc." of "fc.bias".
std::string prefix_of_last_layer(const std::vector<std::string>& keys) {
  const std::string last = keys.empty() ? "" : keys.back();
  return last.substr(0, last.rfind('.') + 1);
}

bool is_counter(std::string_view key) { return key.ends_with(".num_batches_tracked"); }

bool is_of_model(const format::ManifestEntry& entry) { return entry.name.starts_with(kModel); }

/// Returns the prefix with which most of the model's keys are found in `source`; all such prefixes, in the file's
/// order, if it holds several whole models. Counters do not count, because one of two models may lack them.
std::vector<std::string> prefixes_in(const format::CheckpointSource& source, const std::vector<std::string>& keys,
                                     const std::string& last_layer) {
  constexpr int kMostParts = 8;  // of a key
  std::set<std::string_view> ours(keys.begin(), keys.end());
  std::erase_if(ours, is_counter);
  const auto whole = static_cast<std::size_t>(
      std::ranges::count_if(ours, [&](std::string_view key) { return !key.starts_with(last_layer); }));
  std::map<std::string, std::size_t> counts;
  std::vector<std::string> found;
  for (const format::ManifestEntry& entry : source.datasets()) {
    const auto key = is_of_model(entry) ? std::string_view(entry.state_dict_key) : std::string_view();
    std::size_t begin = key.size();
    for (int part = 0; part < kMostParts && begin > 0; ++part) {
      begin = begin < 2 ? 0 : key.rfind('.', begin - 2) + 1;  // after the previous dot, or 0
      if (ours.contains(key.substr(begin)) && ++counts[std::string(key.substr(0, begin))] == 1) {
        found.emplace_back(key.substr(0, begin));
      }
    }
  }
  std::size_t most = 0;
  for (const auto& one : counts) {
    most = std::max(most, one.second);
  }
  std::erase_if(found, [&](const std::string& prefix) { return counts[prefix] < most; });
  found.resize(most < whole || found.empty() ? 1 : found.size());
  return found;
}

/// Returns a tensor of the model with `prefix` that our model does not have; empty if there is none. The last layer may
/// differ if it starts with new weights.
std::string more_than_ours(const format::CheckpointSource& source, const std::string& prefix,
                           const std::vector<std::string>& keys, std::string_view fresh_layer) {
  const std::set<std::string_view> ours(keys.begin(), keys.end());
  for (const format::ManifestEntry& entry : source.datasets()) {
    if (!is_of_model(entry) || !entry.state_dict_key.starts_with(prefix)) {
      continue;
    }
    const std::string_view key = std::string_view(entry.state_dict_key).substr(prefix.size());
    const bool is_fresh = !fresh_layer.empty() && key.starts_with(fresh_layer);
    if (!ours.contains(key) && !is_counter(key) && !is_fresh) {
      return std::string(key);
    }
  }
  return "";
}

Error another_model(const format::CheckpointSource& source, const std::string& how) {
  return fail("--init-from", source.path(), "is of another model: " + how,
              "setting --model to the model of the file; only the last layer may differ", ErrorKind::Mismatch);
}

Error several_models(const format::CheckpointSource& source, const std::vector<std::string>& prefixes) {
  const std::string& last = prefixes.back();
  return fail(
      "--init-from", source.path(),
      fmt::format("holds several models: {}{}", prefixes.front().empty() ? "\"\"" : "", fmt::join(prefixes, ", ")),
      fmt::format("running torch.save({{k[{}:]: v for k, v in state_dict.items() if k.startswith('{}')}}, FILE) in "
                  "Python, which writes one of them",
                  last.size(), last),
      ErrorKind::Mismatch);
}

}  // namespace

Result<InitPlan> plan_init(const format::CheckpointSource& source, const torch::nn::Module& model,
                           const Sharding* sharding) {
  InitPlan plan;
  const std::vector<std::string> keys = model::state_keys(model);
  const std::string last_layer = prefix_of_last_layer(keys);
  const std::vector<std::string> prefixes = prefixes_in(source, keys, last_layer);
  if (prefixes.size() > 1) {
    return several_models(source, prefixes);
  }
  const std::string& prefix = prefixes.front();
  std::set<std::string> changes;
  for (const auto& entry : model::named_state(model)) {
    const std::string& key = entry.key();
    const auto shard = sharding != nullptr ? sharding->shard(key) : std::nullopt;
    const at::Tensor& target = shard ? shard->rows : entry.value();
    const format::ManifestEntry* const average = source.find(format::schema::average_path(prefix + key));
    const format::ManifestEntry* const stored = average != nullptr ? average : source.find(model_path(prefix + key));
    if (average != nullptr) {
      changes.insert("the average of its weights");
    }
    const auto type = stored != nullptr ? format::dtype_from_name(stored->type) : std::nullopt;
    if (type && entry.value().sizes() == at::IntArrayRef(stored->shape)) {
      plan.reads.fill(target, *stored, shard ? shard->first_row : 0);
      if (scalar_type(*type) != target.scalar_type()) {
        changes.insert(
            fmt::format("{} converted to {}", stored->type, format::dtype_name(format_dtype(target.scalar_type()))));
      }
    } else if (stored == nullptr && is_counter(key)) {
      changes.insert("num_batches_tracked, which the file lacks, starts at 0");
    } else if (const std::string how = difference(key, entry.value().sizes(), target.scalar_type(), stored);
               key.starts_with(last_layer)) {
      plan.info.left_out.push_back(how);
    } else {
      return another_model(source, how);
    }
  }
  const std::string more = more_than_ours(source, prefix, keys, plan.info.left_out.empty() ? "" : last_layer);
  if (!more.empty()) {
    return another_model(source, more + " is in the file but not in this model");
  }
  if (!prefix.empty()) {
    changes.insert(fmt::format("prefix \"{}\" removed from its keys", prefix.substr(0, kLongestShown)));
  }
  plan.info.changes.assign(changes.begin(), changes.end());
  return plan;
}

}  // namespace rollcall::checkpoint

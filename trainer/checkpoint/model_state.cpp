#include "trainer/checkpoint/training_state.h"

#include <optional>
#include <set>
#include <vector>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/model/state.h"

namespace rollcall::checkpoint {
namespace {

using format::schema::kModel;
using format::schema::model_path;

/// Returns this rank's part if the parameter is sharded.
std::optional<Shard> shard_of(const Sharding* sharding, const std::string& key) {
  return sharding != nullptr ? sharding->shard(key) : std::nullopt;
}

std::string description(const std::string& shape, std::string_view dtype, bool with_dtype) {
  return with_dtype ? shape + " " + std::string(dtype) : shape;
}

Error another_model(const std::string& path, const std::string& how) {
  return fail(
      "--resume", path, "is of another model: " + how,
      "setting --model and --data as in that training, setting --checkpoint-dir to another folder, or --resume=never",
      ErrorKind::Mismatch);
}

}  // namespace

std::string difference(const std::string& key, at::IntArrayRef sizes, at::ScalarType type,
                       const format::ManifestEntry* stored) {
  if (stored == nullptr) {
    return key + " is in this model but not in the file";
  }
  const auto dtype = dtype_name(format_dtype(type));
  const bool same_dtype = dtype == stored->type;
  if (same_dtype && sizes == at::IntArrayRef(stored->shape)) {
    return "";
  }
  const auto there = description(format::shape_text(stored->shape), stored->type, !same_dtype);
  const auto here = description(format::shape_text(sizes), dtype, !same_dtype);
  return key + " is " + there + " in the file and " + here + " in this model";
}

void add_model(StateParts& parts, const torch::nn::Module& model, const Sharding* sharding) {
  const auto parameters = model.named_parameters();
  std::vector<std::string> keys;
  for (const auto& entry : model::named_state(model)) {
    const std::string& key = entry.key();
    if (const auto shard = shard_of(sharding, key)) {
      parts.add(model_path(key), key, *shard, shard->rows, sharding->writes());
    } else if (parameters.contains(key)) {
      parts.add(model_path(key), key, entry.value());
    } else {
      parts.add_from_rank_zero(model_path(key), key, entry.value());
    }
    keys.push_back(key);
  }
  parts.values[format::schema::kModelKeys] = std::move(keys);
}

Result<void> plan_model(ReadPlan& plan, const torch::nn::Module& model, const Sharding* sharding,
                        const OpenCheckpoint& stored) {
  const std::string& path = stored.source().path();
  std::set<std::string> known;
  for (const auto& entry : model::named_state(model)) {
    const std::string name = model_path(entry.key());
    const format::ManifestEntry* const source = stored.tensor(name);
    const auto shard = shard_of(sharding, entry.key());
    const at::Tensor& target = shard ? shard->rows : entry.value();
    if (const std::string how = difference(entry.key(), entry.value().sizes(), target.scalar_type(), source);
        !how.empty()) {
      return another_model(path, how);
    }
    known.insert(name);
    plan.fill(target, *source, shard ? shard->first_row : 0);
  }
  for (const format::ManifestEntry& entry : stored.source().datasets()) {
    if (entry.kind == format::Kind::Tensor && entry.name.starts_with(kModel) && !known.contains(entry.name)) {
      return another_model(path, entry.state_dict_key + " is in the file but not in this model");
    }
  }
  return {};
}

}  // namespace rollcall::checkpoint

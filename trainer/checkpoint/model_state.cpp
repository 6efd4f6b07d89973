#include "trainer/checkpoint/model_state.h"

#include <algorithm>
#include <set>

#include "trainer/checkpoint/format/schema.h"
#include "trainer/model/state.h"

namespace rollcall::checkpoint {
namespace {

constexpr const char* kModel = "/model/";

std::string path_of(std::string key) {
  std::replace(key.begin(), key.end(), '.', '/');
  return kModel + key;
}

/// This rank's part where the parameter is divided, else undefined.
at::Tensor shard_of(const Sharding* sharding, const std::string& key) {
  return sharding != nullptr ? sharding->shard(key) : at::Tensor();
}

std::string description(const std::string& shape, std::string_view dtype, bool with_dtype) {
  return with_dtype ? shape + " " + std::string(dtype) : shape;
}

/// How the stored tensor differs from ours, or an empty text.
std::string difference(const std::string& key, at::IntArrayRef sizes, at::ScalarType type,
                       const format::TensorView* stored) {
  if (stored == nullptr) {
    return key + " is here and not there";
  }
  const auto dtype = format_dtype(type);
  const bool same_dtype = dtype == stored->dtype;
  if (same_dtype && sizes == at::IntArrayRef(stored->shape)) {
    return "";
  }
  const auto there = description(format::shape_text(stored->shape), dtype_name(stored->dtype), !same_dtype);
  const auto here = description(format::shape_text(sizes), dtype_name(dtype), !same_dtype);
  return key + " is " + there + " there and " + here + " here";
}

Error another_model(const std::string& path, const std::string& how) {
  return fail("--resume", path, "is of another model: " + how,
              "the --model and data it was made with, another --checkpoint-dir, or --resume=never", ExitCode::Mismatch);
}

}  // namespace

void add_model(ContentBuilder& builder, const torch::nn::Module& model, const Sharding* sharding) {
  std::vector<std::string> keys;
  for (const auto& entry : model::named_state(model)) {
    const at::Tensor mine = shard_of(sharding, entry.key());
    const at::Tensor whole = mine.defined() ? sharding->gather(entry.key(), mine) : entry.value();
    if (whole.defined()) {
      builder.add(path_of(entry.key()), entry.key(), whole);
    }
    keys.push_back(entry.key());
  }
  builder.content.values[format::schema::kModelKeys] = std::move(keys);
}

void ModelPlan::carry_out() const {
  const torch::NoGradGuard no_grad;
  for (const auto& [into, from] : copies) {
    into.copy_(from);
  }
}

Result<ModelPlan> plan_model(const torch::nn::Module& model, const Sharding* sharding, const StoredContent& stored,
                             const std::string& path) {
  ModelPlan plan;
  std::set<std::string> known;
  for (const auto& entry : model::named_state(model)) {
    const std::string name = path_of(entry.key());
    const format::TensorView* const source = stored.tensor(name);
    const at::Tensor mine = shard_of(sharding, entry.key());
    const at::ScalarType type = mine.defined() ? mine.scalar_type() : entry.value().scalar_type();
    if (const std::string how = difference(entry.key(), entry.value().sizes(), type, source); !how.empty()) {
      return another_model(path, how);
    }
    known.insert(name);
    if (mine.defined()) {
      plan.copies.emplace_back(mine, sharding->part_of(entry.key(), as_tensor(*source)));
    } else {
      plan.copies.emplace_back(entry.value(), as_tensor(*source));
    }
  }
  for (const format::TensorView& tensor : stored.content().tensors) {
    if (tensor.path.starts_with(kModel) && !known.contains(tensor.path)) {
      return another_model(path, tensor.state_dict_key + " is there and not here");
    }
  }
  return plan;
}

}  // namespace rollcall::checkpoint

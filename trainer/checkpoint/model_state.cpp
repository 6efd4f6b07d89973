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

std::string description(const std::string& shape, std::string_view dtype, bool with_dtype) {
  return with_dtype ? shape + " " + std::string(dtype) : shape;
}

/// How the stored tensor differs from ours, or an empty text.
std::string difference(const std::string& key, const at::Tensor& ours, const format::TensorView* stored) {
  if (stored == nullptr) {
    return key + " is here and not there";
  }
  const auto dtype = format_dtype(ours.scalar_type());
  const bool same_dtype = dtype == stored->dtype;
  if (same_dtype && ours.sizes() == at::IntArrayRef(stored->shape)) {
    return "";
  }
  const auto there = description(format::shape_text(stored->shape), dtype_name(stored->dtype), !same_dtype);
  const auto here = description(format::shape_text(ours.sizes()), dtype_name(dtype), !same_dtype);
  return key + " is " + there + " there and " + here + " here";
}

Error another_model(const std::string& path, const std::string& how) {
  return fail("--resume", path, "is of another model: " + how,
              "the --model and data it was made with, another --checkpoint-dir, or --resume=never", ExitCode::Mismatch);
}

}  // namespace

void add_model(ContentBuilder& builder, const torch::nn::Module& model) {
  std::vector<std::string> keys;
  for (const auto& entry : model::named_state(model)) {
    builder.add(path_of(entry.key()), entry.key(), entry.value());
    keys.push_back(entry.key());
  }
  builder.content.values[format::schema::kModelKeys] = std::move(keys);
}

void ModelPlan::carry_out() const {
  const torch::NoGradGuard no_grad;
  for (const auto& [into, from] : copies) {
    into.copy_(as_tensor(*from));
  }
}

Result<ModelPlan> plan_model(const torch::nn::Module& model, const StoredContent& stored, const std::string& path) {
  ModelPlan plan;
  std::set<std::string> known;
  for (const auto& entry : model::named_state(model)) {
    const std::string name = path_of(entry.key());
    const format::TensorView* const source = stored.tensor(name);
    if (const std::string how = difference(entry.key(), entry.value(), source); !how.empty()) {
      return another_model(path, how);
    }
    known.insert(name);
    plan.copies.emplace_back(entry.value(), source);
  }
  for (const format::TensorView& tensor : stored.content().tensors) {
    if (tensor.path.starts_with(kModel) && !known.contains(tensor.path)) {
      return another_model(path, tensor.state_dict_key + " is there and not here");
    }
  }
  return plan;
}

}  // namespace rollcall::checkpoint

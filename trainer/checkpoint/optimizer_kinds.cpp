#include "trainer/checkpoint/optimizer_kinds.h"

namespace rollcall::checkpoint {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamState;
using torch::optim::SGD;
using torch::optim::SGDOptions;
using torch::optim::SGDParamState;

/// A tensor like `parameter` (device, strides) with the stored values; undefined where none are stored.
at::Tensor read_moment(const StoredContent& stored, const std::string& path, const at::Tensor& parameter) {
  const format::TensorView* const view = stored.tensor(path);
  if (view == nullptr) {
    return {};
  }
  TORCH_CHECK(parameter.sizes() == at::IntArrayRef(view->shape), path, " is ", format::shape_text(view->shape),
              " there and ", format::shape_text(parameter.sizes()), " here");
  const torch::NoGradGuard no_grad;
  const at::Tensor source = as_tensor(*view);
  return torch::empty_like(parameter, parameter.options().dtype(source.scalar_type()).requires_grad(false))
      .copy_(source);
}

class SgdKind final : public OptimizerKind {
 public:
  std::string name() const override { return "SGD"; }

  nlohmann::ordered_json to_json(const OptimizerOptions& options) const override {
    const auto& sgd = dynamic_cast<const SGDOptions&>(options);
    return {{"lr", sgd.lr()},
            {"momentum", sgd.momentum()},
            {"dampening", sgd.dampening()},
            {"weight_decay", sgd.weight_decay()},
            {"nesterov", sgd.nesterov()}};
  }

  std::unique_ptr<OptimizerOptions> from_json(const nlohmann::json& json) const override {
    auto options = std::make_unique<SGDOptions>(json.at("lr").get<double>());
    options->momentum(json.at("momentum").get<double>());
    options->dampening(json.at("dampening").get<double>());
    options->weight_decay(json.at("weight_decay").get<double>());
    options->nesterov(json.at("nesterov").get<bool>());
    return options;
  }

  void add_state(ContentBuilder& builder, const std::string& prefix, const OptimizerParamState& state) const override {
    const at::Tensor& momentum = dynamic_cast<const SGDParamState&>(state).momentum_buffer();
    if (momentum.defined()) {
      builder.add(prefix + "momentum_buffer", "", momentum);
    }
  }

  std::unique_ptr<OptimizerParamState> read_state(const StoredContent& stored, const std::string& prefix,
                                                  const at::Tensor& parameter) const override {
    const at::Tensor momentum = read_moment(stored, prefix + "momentum_buffer", parameter);
    if (!momentum.defined()) {
      return nullptr;
    }
    auto state = std::make_unique<SGDParamState>();
    state->momentum_buffer(momentum);
    return state;
  }
};

class AdamWKind final : public OptimizerKind {
 public:
  std::string name() const override { return "AdamW"; }

  nlohmann::ordered_json to_json(const OptimizerOptions& options) const override {
    const auto& adamw = dynamic_cast<const AdamWOptions&>(options);
    const auto [beta1, beta2] = adamw.betas();
    return {{"lr", adamw.lr()},
            {"betas", {beta1, beta2}},
            {"eps", adamw.eps()},
            {"weight_decay", adamw.weight_decay()},
            {"amsgrad", adamw.amsgrad()}};
  }

  std::unique_ptr<OptimizerOptions> from_json(const nlohmann::json& json) const override {
    auto options = std::make_unique<AdamWOptions>(json.at("lr").get<double>());
    options->betas({json.at("betas").at(0).get<double>(), json.at("betas").at(1).get<double>()});
    options->eps(json.at("eps").get<double>());
    options->weight_decay(json.at("weight_decay").get<double>());
    options->amsgrad(json.at("amsgrad").get<bool>());
    return options;
  }

  void add_state(ContentBuilder& builder, const std::string& prefix, const OptimizerParamState& state) const override {
    const auto& adamw = dynamic_cast<const AdamWParamState&>(state);
    builder.content.values[prefix + "step"] = adamw.step();
    builder.add(prefix + "exp_avg", "", adamw.exp_avg());
    builder.add(prefix + "exp_avg_sq", "", adamw.exp_avg_sq());
    if (adamw.max_exp_avg_sq().defined()) {
      builder.add(prefix + "max_exp_avg_sq", "", adamw.max_exp_avg_sq());
    }
  }

  std::unique_ptr<OptimizerParamState> read_state(const StoredContent& stored, const std::string& prefix,
                                                  const at::Tensor& parameter) const override {
    const auto* const step = stored.value<std::int64_t>(prefix + "step");
    if (step == nullptr) {
      return nullptr;
    }
    auto state = std::make_unique<AdamWParamState>();
    state->step(*step);
    state->exp_avg(read_moment(stored, prefix + "exp_avg", parameter));
    state->exp_avg_sq(read_moment(stored, prefix + "exp_avg_sq", parameter));
    state->max_exp_avg_sq(read_moment(stored, prefix + "max_exp_avg_sq", parameter));
    TORCH_CHECK(state->exp_avg().defined() && state->exp_avg_sq().defined(), prefix,
                "exp_avg or exp_avg_sq is missing there");
    return state;
  }
};

}  // namespace

const OptimizerKind* OptimizerKind::of(const torch::optim::Optimizer& optimizer) {
  static const SgdKind sgd;
  static const AdamWKind adamw;
  if (dynamic_cast<const SGD*>(&optimizer) != nullptr) {
    return &sgd;
  }
  return dynamic_cast<const AdamW*>(&optimizer) != nullptr ? &adamw : nullptr;
}

}  // namespace rollcall::checkpoint

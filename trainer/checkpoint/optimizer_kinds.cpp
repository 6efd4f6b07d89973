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

  void add_state(const StateSink& sink, const OptimizerParamState& state) const override {
    const at::Tensor& momentum = dynamic_cast<const SGDParamState&>(state).momentum_buffer();
    if (momentum.defined()) {
      sink.add("momentum_buffer", momentum);
    }
  }

  std::unique_ptr<OptimizerParamState> read_state(const StateSource& source) const override {
    const at::Tensor momentum = source.tensor("momentum_buffer");
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

  void add_state(const StateSink& sink, const OptimizerParamState& state) const override {
    const auto& adamw = dynamic_cast<const AdamWParamState&>(state);
    sink.add("step", adamw.step());
    sink.add("exp_avg", adamw.exp_avg());
    sink.add("exp_avg_sq", adamw.exp_avg_sq());
    if (adamw.max_exp_avg_sq().defined()) {
      sink.add("max_exp_avg_sq", adamw.max_exp_avg_sq());
    }
  }

  std::unique_ptr<OptimizerParamState> read_state(const StateSource& source) const override {
    const std::optional<std::int64_t> step = source.number("step");
    if (!step) {
      return nullptr;
    }
    auto state = std::make_unique<AdamWParamState>();
    state->step(*step);
    state->exp_avg(source.tensor("exp_avg"));
    state->exp_avg_sq(source.tensor("exp_avg_sq"));
    state->max_exp_avg_sq(source.tensor("max_exp_avg_sq"));
    TORCH_CHECK(state->exp_avg().defined() && state->exp_avg_sq().defined(),
                "exp_avg or exp_avg_sq of a parameter is missing there");
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

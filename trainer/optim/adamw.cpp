#include "trainer/optim/optimizer_kind.h"

namespace rollcall::optim {
namespace {

using torch::optim::AdamW;
using torch::optim::AdamWOptions;
using torch::optim::AdamWParamState;

Result<void> check(const OptimizerOptions& options) {
  if (!is_decay(options.beta1)) {
    return fail("--adam-beta1", number_text(options.beta1), "is outside 0 <= beta < 1", "0.9");
  }
  if (!is_decay(options.beta2)) {
    return fail("--adam-beta2", number_text(options.beta2), "is outside 0 <= beta < 1", "0.999");
  }
  if (!is_non_negative(options.eps)) {
    return fail("--adam-eps", number_text(options.eps), "is negative or not finite", "1e-8");
  }
  return {};
}

std::unique_ptr<torch::optim::Optimizer> make(const OptimizerOptions& options, const NamedParameters& parameters) {
  return make_with_groups<AdamW>(parameters, options.weight_decay, [&](double weight_decay) {
    return AdamWOptions(options.learning_rate)
        .betas({options.beta1, options.beta2})
        .eps(options.eps)
        .weight_decay(weight_decay);
  });
}

bool made(const torch::optim::Optimizer& optimizer) { return dynamic_cast<const AdamW*>(&optimizer) != nullptr; }

nlohmann::ordered_json to_json(const torch::optim::OptimizerOptions& options) {
  const auto& adamw = dynamic_cast<const AdamWOptions&>(options);
  const auto [beta1, beta2] = adamw.betas();
  return {{"lr", adamw.lr()},
          {"betas", {beta1, beta2}},
          {"eps", adamw.eps()},
          {"weight_decay", adamw.weight_decay()},
          {"amsgrad", adamw.amsgrad()}};
}

std::unique_ptr<torch::optim::OptimizerOptions> from_json(const nlohmann::json& json) {
  auto options = std::make_unique<AdamWOptions>(json.at("lr").get<double>());
  options->betas({json.at("betas").at(0).get<double>(), json.at("betas").at(1).get<double>()});
  options->eps(json.at("eps").get<double>());
  options->weight_decay(json.at("weight_decay").get<double>());
  options->amsgrad(json.at("amsgrad").get<bool>());
  return options;
}

void save_state(const torch::optim::OptimizerParamState& state, const StateSink& sink) {
  const auto& adamw = dynamic_cast<const AdamWParamState&>(state);
  sink.number("step", adamw.step());
  sink.tensor("exp_avg", adamw.exp_avg());
  sink.tensor("exp_avg_sq", adamw.exp_avg_sq());
  if (adamw.max_exp_avg_sq().defined()) {
    sink.tensor("max_exp_avg_sq", adamw.max_exp_avg_sq());
  }
}

std::unique_ptr<torch::optim::OptimizerParamState> load_state(const StateSource& source) {
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

}  // namespace

const OptimizerKind kAdamW{.name = "adamw",
                           .python_name = "AdamW",
                           .check = check,
                           .make = make,
                           .made = made,
                           .to_json = to_json,
                           .from_json = from_json,
                           .save_state = save_state,
                           .load_state = load_state};

}  // namespace rollcall::optim

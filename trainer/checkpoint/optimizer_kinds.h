#pragma once

#include <torch/torch.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "trainer/checkpoint/parameter_state.h"

namespace rollcall::checkpoint {

/// How one kind of optimizer's options and per-parameter state are saved and restored.
class OptimizerKind {
 public:
  /// SGD or AdamW; null for others.
  static const OptimizerKind* of(const torch::optim::Optimizer& optimizer);

  virtual ~OptimizerKind() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  /// Named as Python's param_groups name them.
  [[nodiscard]] virtual nlohmann::ordered_json to_json(const torch::optim::OptimizerOptions& options) const = 0;
  /// Throws nlohmann::json::exception where something is missing.
  [[nodiscard]] virtual std::unique_ptr<torch::optim::OptimizerOptions> from_json(const nlohmann::json& json) const = 0;
  virtual void add_state(const StateSink& sink, const torch::optim::OptimizerParamState& state) const = 0;
  /// Null where nothing is stored for this parameter (it never had a gradient). Throws c10::Error where a part is
  /// missing or has another shape than `parameter`.
  [[nodiscard]] virtual std::unique_ptr<torch::optim::OptimizerParamState> read_state(
      const StateSource& source) const = 0;
};

}  // namespace rollcall::checkpoint

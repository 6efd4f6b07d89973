#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>

#include "trainer/checkpoint/read_plan.h"
#include "trainer/checkpoint/state_parts.h"

namespace rollcall::checkpoint {

// An optimizer's state for one parameter, on its way out and in. `key` names the parameter in the state dict;
// `sharding` is null where every rank has all of it.

class StateSink {
 public:
  StateSink(StateParts& parts, std::string key, const Sharding* sharding)
      : parts_(parts), key_(std::move(key)), sharding_(sharding) {}

  /// Adds /optimizer/state/<key>/<name>: a tensor of the parameter's shape, a number.
  void add(const std::string& name, const at::Tensor& tensor) const;
  void add(const std::string& name, std::int64_t number) const;

 private:
  StateParts& parts_;
  std::string key_;
  const Sharding* sharding_;
};

class StateSource {
 public:
  /// All outlive it. `parameter`: what the optimizer updates.
  StateSource(const OpenCheckpoint& stored, ReadPlan& plan, const at::Tensor& parameter, std::string key,
              const Sharding* sharding)
      : stored_(stored), plan_(plan), parameter_(parameter), key_(std::move(key)), sharding_(sharding) {}

  /// A tensor like the parameter (device, strides) that gets the stored values when the plan is carried out; undefined
  /// where none are stored. Throws c10::Error where the shape differs.
  [[nodiscard]] at::Tensor tensor(const std::string& name) const;
  [[nodiscard]] std::optional<std::int64_t> number(const std::string& name) const;

 private:
  [[nodiscard]] std::string path(const std::string& name) const;

  const OpenCheckpoint& stored_;
  ReadPlan& plan_;
  const at::Tensor& parameter_;
  std::string key_;
  const Sharding* sharding_;
};

}  // namespace rollcall::checkpoint

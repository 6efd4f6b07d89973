#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/exchange/state_dict.h"

namespace rollcall::checkpoint_tool {

/// A parameter or buffer that a model has.
struct ModelTensor {
  std::string key;
  std::vector<std::int64_t> shape;
};

/// The state dict of a ResNet as torchvision and trainer/model name and order it (torchvision/models/resnet.py); a test
/// compares it with the model itself. `name`: "resnet20", "resnet18" ... "resnet152"; nothing for other names.
[[nodiscard]] std::optional<std::vector<ModelTensor>> resnet_tensors(const std::string& name, std::int64_t num_classes);

struct KnownModel {
  std::string name;
  std::int64_t num_classes = 0;
};

/// The model that a state dict is of, if rollcall-train knows it: same names, same shapes. Its tensors are then put
/// into the model's order; files do not always keep it.
[[nodiscard]] std::optional<KnownModel> recognise_model(std::vector<checkpoint::exchange::StateTensor>& tensors);

}  // namespace rollcall::checkpoint_tool

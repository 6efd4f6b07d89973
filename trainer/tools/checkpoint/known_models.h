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

/// The model that a state dict is of, if rollcall-train knows it: same names, same shapes, of which batch norms'
/// counters may be missing, as load_state_dict() takes them. Its tensors are then put into the model's order; files do
/// not always keep it. What is before all its names ("net.") is taken off, and what has not goes to `others`; a name
/// with it that the model lacks is of another model. Error (BadData): several such models, told by what is before their
/// names, in the file at `path`.
[[nodiscard]] Result<std::optional<KnownModel>> recognise_model(checkpoint::exchange::StateDict& state,
                                                                const std::string& path);

}  // namespace rollcall::checkpoint_tool

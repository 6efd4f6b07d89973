#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/interop/state_dict.h"

namespace rollcall::checkpoint_tool {

/// A parameter or buffer of a model.
struct ModelTensor {
  std::string key;
  std::vector<std::int64_t> shape;
};

/// Returns the names and shapes of a ResNet's state dict, in the order of torchvision and trainer/model
/// (torchvision/models/resnet.py); a test compares it with the model itself. `name`: "resnet20", "resnet18" ...
/// "resnet152"; nothing for other names.
[[nodiscard]] std::optional<std::vector<ModelTensor>> resnet_tensors(const std::string& name, std::int64_t num_classes);

struct KnownModel {
  std::string name;
  std::int64_t num_classes = 0;
};

/// Recognises the model of a state dict, if rollcall-train has it: same names, same shapes; counters of batch norms may
/// be missing, as for load_state_dict(). The tensors are then put into the model's order, which files do not always
/// keep. A common prefix of its names ("net.") is removed, and tensors without it go to `others`; a name with the
/// prefix that the model does not have means another model. Error (BadData): the file at `path` holds several such
/// models, with different prefixes.
[[nodiscard]] Result<std::optional<KnownModel>> recognise_model(checkpoint::interop::StateDict& state,
                                                                const std::string& path);

}  // namespace rollcall::checkpoint_tool

#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/state_dict.h"
#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint_tool {

/// Writes a checkpoint that has a model and nothing else of a training (no optimizer, progress or generators), and
/// `values` beside it, as safely as a training writes its own. Errors: BadData: a name that no checkpoint can hold;
/// CannotCreate, InputOutput.
[[nodiscard]] Result<void> write_model_checkpoint(const std::string& path, bool overwrite,
                                                  const std::vector<checkpoint::exchange::StateTensor>& tensors,
                                                  std::map<std::string, checkpoint::format::Value> values);

/// What is wrong with a state dict's keys, or an empty text: each part between dots becomes a group or a data set.
[[nodiscard]] std::string key_problem(const std::vector<checkpoint::exchange::StateTensor>& tensors);

}  // namespace rollcall::checkpoint_tool

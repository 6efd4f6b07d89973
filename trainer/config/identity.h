#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/settings/settings.h"

namespace rollcall::config {

/// A setting with another value than in the training that wrote a checkpoint.
struct Change {
  std::string option;  ///< "--lr"
  std::string then;
  std::string now;
};

/// Returns the settings that make `now`, of trainer_table(), another training than `then`, the TrainConfig::json of the
/// run that wrote a checkpoint. These are the settings that change what the model becomes. Settings about speed,
/// machines, length (unless the schedule depends on it), checkpoints and output may change, and so may the default of a
/// new setting. A setting that only the version of the other program knows is among them if it was given. The images of
/// a step and the path of the data are not compared here: other ranks and another folder may mean the same.
///
/// `on_device`: this training computes on a device other than the CPU. On a CPU the defaults of earlier versions,
/// float32 images and own kernels, are today's.
///
/// Pure. A text that is not such JSON gives none, since the program that wrote the file did not store its settings.
[[nodiscard]] std::vector<Change> changes(std::string_view then, const settings::Settings& now, bool on_device = false);

/// Returns the settings of this rank, `mine`, that differ from those of rank 0, whose TrainConfig::json is given. Those
/// of may_differ_among_ranks() are ignored, and so are different names of a file to start from. Pure.
[[nodiscard]] std::vector<Change> differences_among_ranks(std::string_view of_rank_zero,
                                                          const settings::Settings& mine);

/// Returns the text of one setting in such JSON; empty if the setting is not in it.
[[nodiscard]] std::string setting_then(std::string_view then, std::string_view name);

/// Returns "--lr was 0.1 and is 0.2, --seed was 0 and is 7".
[[nodiscard]] std::string changes_text(const std::vector<Change>& changes);

/// Whether ranks of one training may have different values, since the setting is about a node or only rank 0 reads it.
[[nodiscard]] bool may_differ_among_ranks(std::string_view name);

/// Whether a training stays the same with another value of this setting.
[[nodiscard]] bool may_change(std::string_view name);

}  // namespace rollcall::config

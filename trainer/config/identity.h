#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/settings/settings.h"

namespace rollcall::config {

/// A setting that has another value than in the training that a checkpoint is of.
struct Change {
  std::string option;  ///< "--lr"
  std::string then;
  std::string now;
};

/// The settings by which `now`, of trainer_table(), defines another training than `then`, which is TrainConfig::json of
/// the run that wrote a checkpoint: those that change what the model becomes. How fast it does, on which machines, how
/// far it goes (but where the schedule ends with it), what is kept and told of it may change freely; so may a new
/// setting's default. The images of a step and the place of the data are not compared here: other ranks and another
/// folder may mean the same.
///
/// Pure. A text that is no such JSON gives none: the file is then of a program that did not say.
[[nodiscard]] std::vector<Change> changes(std::string_view then, const settings::Settings& now);

/// The settings by which this rank's, `mine`, are other than those of rank 0, whose TrainConfig::json is given: all but
/// may_differ_among_ranks(); of a file to begin from only the name may. Pure.
[[nodiscard]] std::vector<Change> differences_among_ranks(std::string_view of_rank_zero,
                                                          const settings::Settings& mine);

/// The text of one setting in such a JSON; empty where it is not in it.
[[nodiscard]] std::string setting_then(std::string_view then, std::string_view name);

/// "--lr was 0.1 and is 0.2, --seed was 0 and is 7"
[[nodiscard]] std::string changes_text(const std::vector<Change>& changes);

/// Whether ranks of one training may have different values: what is a node's own, or rank 0's alone to read.
[[nodiscard]] bool may_differ_among_ranks(std::string_view name);

/// Whether another value of a trainer's setting gives the same training.
[[nodiscard]] bool may_change(std::string_view name);

}  // namespace rollcall::config

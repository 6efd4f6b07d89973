#pragma once

#include "runtime/settings/settings.h"

namespace rollcall::config {

// The rows of trainer_table(), in files by subject.

inline constexpr double kMost = 1e15;  ///< largest number of steps, images or seconds that a setting accepts

[[nodiscard]] settings::Table data_settings();      ///< groups Data and Augmentation
[[nodiscard]] settings::Table training_settings();  ///< groups Model and Training
[[nodiscard]] settings::Table parallel_settings();  ///< group Parallel
[[nodiscard]] settings::Table run_settings();       ///< groups Checkpoints and Output

}  // namespace rollcall::config

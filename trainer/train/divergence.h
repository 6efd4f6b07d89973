#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"

// How a training ends whose numbers are no longer finite: what is told, and the way on. All are BadData.
namespace rollcall::train {

/// The loss of step `step`. `first_of_run`: the run went on from a checkpoint and has done no other step: it is that
/// checkpoint's model which has diverged.
[[nodiscard]] Error loss_not_finite(double loss, std::int64_t step, bool first_of_run);
[[nodiscard]] Error validation_not_finite(double loss, std::int64_t step);
/// After so many steps in a row that were left out. `where`: the first such parameter, or empty: another rank has it.
[[nodiscard]] Error gradients_not_finite(const std::string& where, std::int64_t in_a_row, std::int64_t step);
/// float16, with the smallest scale.
[[nodiscard]] Error gradients_not_finite_at_any_scale();
/// `where` as above. Nothing was saved.
[[nodiscard]] Error weights_not_finite(const std::string& where, std::int64_t step);

/// "of conv1.weight", "of another rank's part"
[[nodiscard]] std::string place_of(const std::string& parameter);

}  // namespace rollcall::train

#pragma once

#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/doctor/facts.h"

namespace rollcall::doctor {

/// The facts as compact JSON: what travels from a rank to rank 0. Bytes that are no UTF-8 are replaced.
[[nodiscard]] std::string to_json_text(const TaskFacts& facts);

/// The reverse; unknown keys are passed over, missing ones leave the default. Errors (Mismatch): not such JSON.
[[nodiscard]] Result<TaskFacts> task_facts_from_json(std::string_view text);

}  // namespace rollcall::doctor

#pragma once

#include <cstddef>
#include <functional>

#include "runtime/base/result.h"

namespace rollcall::data {

/// Calls work(0) ... work(count - 1), each once, from a few threads: for what waits for storage rather than for a CPU.
/// After a failure no further call begins. Errors: the failed call's of the lowest number, as if one came after the
/// other.
[[nodiscard]] Result<void> in_parallel(std::size_t count, const std::function<Result<void>(std::size_t)>& work);

}  // namespace rollcall::data

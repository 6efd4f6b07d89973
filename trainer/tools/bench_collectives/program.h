#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"

namespace rollcall::bench_collectives {

/// The program `rollcall-bench-collectives`; its exit code. Rank 0 prints.
[[nodiscard]] int run(const Environment& environment, const std::vector<std::string>& arguments);

}  // namespace rollcall::bench_collectives

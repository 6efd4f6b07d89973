#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::process_group {

/// Gives all ranks `mine` and returns everybody's by rank; bytes. Collective.
using Exchange = std::function<Result<std::vector<std::string>>(const std::string& mine)>;

}  // namespace rollcall::process_group

#pragma once

#include <string>

namespace rollcall::checkpoint::format {

/// gethostname(2); "unknown" where that fails.
[[nodiscard]] std::string host_name();

}  // namespace rollcall::checkpoint::format

#pragma once

#include <string_view>

namespace rollcall {

/// What `rollcall-train --backend` and `rollcall doctor --collectives` take; docs/user/backends.md says what each is.
inline constexpr std::string_view kBackendNames = "auto|gloo|ucx|mpi|nccl";

}  // namespace rollcall

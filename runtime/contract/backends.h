#pragma once

#include <string_view>

namespace rollcall {

/// The values of `rollcall-train --backend` and `rollcall doctor --collectives`, which docs/user/backends.md explains.
inline constexpr std::string_view kBackendNames = "auto|gloo|ucx|mpi|nccl";

}  // namespace rollcall

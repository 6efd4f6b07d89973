#pragma once

#include <chrono>
#include <string>

#include "runtime/doctor/facts.h"

namespace rollcall::doctor {

/// Runs `path`/bin/python on this node: an environment that was made on a login node can lack its interpreter or its
/// libraries on a compute node.
[[nodiscard]] VenvFacts observe_venv(const std::string& path, std::chrono::duration<double> patience);

}  // namespace rollcall::doctor

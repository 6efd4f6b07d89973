#pragma once

#include <string>

#include "runtime/doctor/facts.h"

namespace rollcall::doctor {

/// The versions on this node, all but rollcall's own. Slurm's comes from `scontrol --version`, PMIx's from the library
/// that would be opened; empty where there is none.
[[nodiscard]] Versions observe_versions();

/// The address under which Slurm itself reaches `host` (`scontrol show node`); empty: it does not say.
[[nodiscard]] std::string slurms_address_of(const std::string& host);

}  // namespace rollcall::doctor

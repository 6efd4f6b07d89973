#pragma once

#include <string>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/environment.h"
#include "runtime/doctor/world.h"
#include "runtime/settings/settings.h"

namespace rollcall::doctor {

/// The path of rollcall-bench-collectives: the one of this installation, else the first of PATH. Empty: there is none.
[[nodiscard]] std::string bench_program(const Environment& environment);

/// Runs `program` as this rank's part of a short measurement of `backends`; every rank of the step does. What was given
/// to this program as options of launch settings is handed on. It is killed where it takes half a minute longer than
/// rendezvous.timeout. Rows and the first error are those that rank 0 prints.
[[nodiscard]] Collectives measure_collectives(const std::string& program, const std::vector<std::string>& backends,
                                              const settings::Settings& settings, const Environment& environment);

/// What its output says. Pure.
[[nodiscard]] Collectives read_collectives(const ChildOutput& output);

}  // namespace rollcall::doctor

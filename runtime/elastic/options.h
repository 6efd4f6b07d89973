#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::elastic {

/// The options of `rollcall run`: torchrun's (torch/distributed/run.py, 2.15), then those of rollcall alone. Help,
/// completion and the checks of values come from it.
[[nodiscard]] settings::Table run_table();

/// The letter of an option that has one: 'r' for "redirects"; 0 for none.
[[nodiscard]] char option_letter(std::string_view name);

/// PET_NPROC_PER_NODE for "nproc-per-node": where torchrun takes an option's default from. Empty where it takes none
/// (--logs-specs, --numa-binding, --print-completion), and for rollcall's own options.
[[nodiscard]] std::string default_variable(std::string_view name);

/// A command line, read as torchrun reads it.
struct RunOptions {
  settings::Settings values;         ///< of run_table(); origins are "--name", "PET_NAME" or "default"
  bool help = false;                 ///< -h or --help stood before the program
  std::vector<std::string> program;  ///< the training script and its arguments
};

/// Reads the arguments after `rollcall run` with the rules of Python's argparse, as torchrun's users know them: '-' and
/// '_' in a name are the same, any unambiguous beginning of a name will do (torchrun's options only), values follow
/// after '=' or as the next argument, letters can be joined (-mr3), the first argument that is no option is the program
/// and all after it is the program's, but for a "--" right behind its name. Defaults come from PET_* variables.
///
/// Errors (Usage): unknown option, with the nearest name; ambiguous; lacks its value, or takes none; a value that its
/// row refuses.
[[nodiscard]] Result<RunOptions> parse_run_options(std::span<const std::string> arguments,
                                                   const Environment& environment);

}  // namespace rollcall::elastic

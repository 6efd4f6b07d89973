#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"

namespace rollcall::elastic {

/// Returns the options of `rollcall run`: torchrun's (torch/distributed/run.py, 2.15), then rollcall's own. Help,
/// completion and the checks of values are made from this table.
[[nodiscard]] settings::Table run_table();

/// Returns the variable that sets an option's default in torchrun, such as PET_NPROC_PER_NODE for "nproc-per-node".
/// Empty where torchrun has none (--logs-specs, --numa-binding, --print-completion), and for rollcall's own options.
[[nodiscard]] std::string default_variable(std::string_view name);

/// A command line, parsed as torchrun parses it.
struct RunOptions {
  settings::Settings values;              ///< of run_table(); origins are "--name", "PET_NAME" or "default"
  std::optional<std::string> help_topic;  ///< "all" for --help=all, empty for --help; unset without --help
  std::vector<std::string> program;       ///< the training script and its arguments
};

/// Parses the arguments after `rollcall run` by the rules of Python's argparse, as torchrun does: '-' and '_' in a name
/// are the same, an unambiguous beginning of a name suffices (torchrun's options only), values follow after '=' or as
/// the next argument, letters can be joined (-mr3). The first argument that is not an option is the program, and all
/// later ones belong to the program, except for a "--" directly after its name. Defaults come from PET_* variables.
///
/// Errors (Usage): unknown option, with the nearest name; ambiguous name; missing or superfluous value; a value that
/// the table refuses.
[[nodiscard]] Result<RunOptions> parse_run_options(std::span<const std::string> arguments,
                                                   const Environment& environment);

}  // namespace rollcall::elastic

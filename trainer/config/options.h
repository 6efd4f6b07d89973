#pragma once

#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::config {

/// The work that `rollcall-train` is asked to do.
enum class Request {
  Train,
  DryRun,         ///< connect the ranks, do one all-reduce, and try the training
  FindLr,         ///< measure with which learning rates the loss falls
  BenchmarkData,  ///< read the training data without training
  Help,
  Version,
  RecipeList,
  PrintConfig,
  PrintSettingsMarkdown,  ///< for docs/reference/settings.md
};

struct Options {
  Request request = Request::Train;
  std::string text;            ///< Help, RecipeList: the text to print
  bool json = false;           ///< print JSON: for PrintConfig, BenchmarkData and the trace
  bool trace_startup = false;  ///< print the time of each stage of the start
  settings::Settings trainer;
  settings::LaunchSettings launch;
};

/// Reads all layers of both tables: default < site profile < recipe < user file < ROLLCALL_* < command line. Errors:
/// those of the layers, a topic of --help that does not exist, and work on data without --data.
[[nodiscard]] Result<Options> read_options(const Environment& environment, const std::vector<std::string>& arguments);

/// Returns the settings of `rollcall-train`, which include the flags of the Jülich recipe. They are given like launch
/// settings: `--batch-size=64`, ROLLCALL_BATCH_SIZE, or `batch-size = 64` in table [trainer] of a TOML file.
[[nodiscard]] settings::Table trainer_table();

}  // namespace rollcall::config

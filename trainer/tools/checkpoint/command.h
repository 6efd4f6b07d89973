#pragma once

#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/command_line/command_line.h"
#include "runtime/settings/settings.h"
#include "trainer/metrics/progress_display.h"

namespace rollcall::checkpoint_tool {

/// What a command works with.
struct CommandContext {
  settings::Settings options;  ///< of Command::table
  command_line::ParsedCommandLine line;
  std::vector<std::string> arguments;  ///< as many as the command takes
  metrics::WorkProgress& progress;     ///< on standard error
  std::ostream& out;

  [[nodiscard]] bool json() const { return line.has("json"); }
};

/// One subcommand of `rollcall-checkpoint`: a row of the table from which dispatch and help come.
struct Command {
  std::string_view name;
  std::string_view summary;    ///< one clause, for `--help`
  std::string_view arguments;  ///< "CHECKPOINT [TENSOR...]"
  std::string_view text;       ///< paragraphs of `rollcall-checkpoint NAME --help`; every line ends with a line feed
  std::size_t at_least;        ///< arguments
  std::size_t at_most;
  std::span<const command_line::Flag> flags;
  settings::Table table;
  /// The exit code. What a command finds is printed to `out` before an Error tells of it.
  Result<int> (*run)(CommandContext& context);
};

/// All subcommands, in the order of the help.
[[nodiscard]] std::span<const Command> all_commands();

/// The exit code of `diff` where the checkpoints differ, as diff(1) has it.
inline constexpr int kDiffer = 1;

[[nodiscard]] Result<int> run_ls(CommandContext& context);
[[nodiscard]] Result<int> run_show(CommandContext& context);
[[nodiscard]] Result<int> run_verify(CommandContext& context);
[[nodiscard]] Result<int> run_diff(CommandContext& context);
[[nodiscard]] Result<int> run_export(CommandContext& context);
[[nodiscard]] Result<int> run_import(CommandContext& context);
[[nodiscard]] Result<int> run_merge(CommandContext& context);
[[nodiscard]] Result<int> run_prune(CommandContext& context);

}  // namespace rollcall::checkpoint_tool

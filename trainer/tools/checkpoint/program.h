#pragma once

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/help.h"
#include "runtime/settings/settings.h"
#include "trainer/metrics/progress_display.h"

namespace rollcall::checkpoint_tool {

/// Runs `rollcall-checkpoint`; `arguments` lack the program's name. Progress goes to stderr. Returns the exit code and
/// never throws.
int run(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) noexcept;

/// The inputs and outputs of a command.
struct CommandContext {
  settings::Settings options;  ///< values of Command::table
  command_line::ParsedCommandLine line;
  std::vector<std::string> arguments;  ///< positional arguments; their number has been checked
  metrics::WorkProgress& progress;     ///< on standard error
  std::ostream& out;

  [[nodiscard]] bool json() const { return line.has("json"); }
};

using Json = nlohmann::ordered_json;

/// Prints {"schema": "rollcall-checkpoint/1", "command": ..., members of `content`} on one line: the object of
/// `--json`, described in docs/user/checkpoint_tool.md.
void print_json(std::ostream& out, std::string_view command, const Json& content);

/// A subcommand of `rollcall-checkpoint`, from which dispatch and help are made.
struct Command {
  std::string_view name;
  std::string_view summary;    ///< one clause, for `--help`
  std::string_view arguments;  ///< "CHECKPOINT [TENSOR...]"
  std::string_view text;       ///< paragraphs of `rollcall-checkpoint NAME --help`; every line ends with a line feed
  std::size_t min_arguments;   ///< minimum number of arguments
  std::size_t max_arguments;
  std::span<const command_line::Flag> flags;
  settings::Table table;
  /// Runs the command and returns the exit code. Results are printed to `out` before an Error reports them.
  Result<int> (*run)(CommandContext& context);
};

// Each command has its own file.
[[nodiscard]] Command ls_command();
[[nodiscard]] Command show_command();
[[nodiscard]] Command verify_command();
[[nodiscard]] Command diff_command();
[[nodiscard]] Command export_command();
[[nodiscard]] Command import_command();
[[nodiscard]] Command merge_command();
[[nodiscard]] Command prune_command();

/// Returns all commands, in the order of the help.
[[nodiscard]] std::span<const Command> all_commands();

// Shared by several commands.
inline constexpr std::size_t kAnyNumber = 1'000'000;  ///< no limit of the number of arguments
using command_line::kHelp;
inline constexpr command_line::Flag kJson{"json", 0, "Print one JSON object (docs/user/checkpoint_tool.md)"};
inline constexpr std::array kListFlags{kHelp, kJson};
inline constexpr std::array kOutFlags{kHelp, kJson, command_line::Flag{"overwrite", 0, "Replace OUT if it exists"}};
inline constexpr settings::Setting kProgress{
    "progress",
    settings::Kind::Choice,
    "auto",
    "auto|bar|lines|none",
    "Progress display on standard error. auto: a bar on a terminal, otherwise a line every ten seconds",
    "Running"};
inline constexpr std::array kProgressTable{kProgress};

}  // namespace rollcall::checkpoint_tool

#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/command_line/command_line.h"
#include "runtime/settings/settings.h"

namespace rollcall::command_line {

/// The flags that every program has. `--help=TOPIC` is described at help_text().
inline constexpr Flag kHelp{"help", 'h', "Show the common options, all of them, or those of one group"};
inline constexpr Flag kVersion{"version", 0, "Show the version"};

/// A command or another fixed first argument, with one clause about it.
struct Word {
  std::string_view name;
  std::string_view summary;
};

/// A program, or one command of a program, as its help describes it. All texts must outlive it.
struct HelpPage {
  std::string name;                       ///< "rollcall-pack", "rollcall env"
  std::string text;                       ///< usage, description and examples; ends with a line feed
  std::vector<Flag> flags{};              ///< those with an empty help are not shown
  std::vector<settings::Table> tables{};  ///< its own options
  std::string_view closing{};             ///< after the options
  bool takes_launch_settings = false;     ///< they are options too; the help refers to `rollcall help settings`
  std::vector<HelpPage> commands{};
  std::vector<Word> words{};  ///< what the first argument may be, for completion
};

/// Returns what `--help=TOPIC` prints. "": the text and the options that are used most, each with the first sentence of
/// its help; all options, with all of it, where the tables mark none. "all": every option, those of the commands too.
/// The name of a group, as "nodes-and-workers" for "Nodes and workers": the options of that group. The name of a
/// command: its page. For scripts/update-pages: "roff": the section OPTIONS of the manual page; "completion": rows of
/// runtime/cli/completion/options.txt. Lines of options have at most 100 columns. Error (Usage): another topic, with
/// those that there are. Pure.
[[nodiscard]] Result<std::string> help_text(const HelpPage& page, std::string_view topic);

/// Breaks `text` at blanks into lines of at most `width` columns, all but the first indented by `indent` blanks. A
/// longer word gets a line of its own.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace rollcall::command_line

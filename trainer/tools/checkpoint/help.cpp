#include <fmt/format.h>

#include <array>
#include <iterator>

#include "runtime/command_line/command_line.h"
#include "trainer/tools/checkpoint/command.h"
#include "trainer/tools/checkpoint/program.h"

namespace rollcall::checkpoint_tool {

std::string program_help() {
  std::string text =
      "Looks at checkpoints of rollcall-train, checks, compares and thins them out, and carries weights from and to\n"
      "PyTorch.\n\nUsage: rollcall-checkpoint COMMAND [OPTIONS] ...\n\nCommands:\n";
  for (const Command& command : all_commands()) {
    fmt::format_to(std::back_inserter(text), "  {:<32}{}\n", fmt::format("{} {}", command.name, command.arguments),
                   command.summary);
  }
  return text +
         R"(  help COMMAND                    explain a command, with examples (also: COMMAND --help)
  --version

Wherever a CHECKPOINT is wanted a folder means the newest one in it that is whole.

Examples:
  rollcall-checkpoint ls $SCRATCH/run/checkpoints
  rollcall-checkpoint verify $SCRATCH/run/checkpoints
  rollcall-checkpoint export checkpoints/best.h5 resnet50.safetensors
  rollcall-checkpoint import resnet50.pth start.h5

Exit codes: 0 done; 1 diff: they differ; 64 wrong option or name; 65 damaged, or not to be trusted; 66 not there;
73 cannot be created, or is there already; 74 reading or writing failed; 76 of a newer format, or of another model.
)";
}

std::string command_help(const Command& command) {
  const std::array tables{command.table};
  return fmt::format("Usage: rollcall-checkpoint {} [OPTIONS] {}\n\n{}\n{}", command.name, command.arguments,
                     command.text, command_line::help_text(command.flags, tables));
}

}  // namespace rollcall::checkpoint_tool

#include "runtime/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "runtime/cli/env_command.h"
#include "runtime/command_line/command_line.h"
#include "runtime/elastic/options.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::cli {
namespace {

using command_line::Flag;
using command_line::StopAt;

constexpr Flag kHelp{"help", 'h', "print this help"};

constexpr std::array kEnvFlags{
    kHelp,
    Flag{"json", 0, "print facts, variables, warnings and sources as JSON"},
    Flag{"export", 0, "print lines for a shell: export NAME='value' and unset NAME"},
    Flag{"all-ranks", 0, "print the table of every rank, each line with its rank in front"},
    Flag{"verbose", 'v', "print also who was asked for the facts, and what they are"},
};
constexpr std::array kExecFlags{kHelp};
constexpr std::array kRunFlags{kHelp};
constexpr std::array kDoctorFlags{
    kHelp,
    Flag{"json", 0, "print one JSON object"},
    Flag{"list", 0, "name the checks and what each looks at"},
    Flag{"no-bench", 0, "do not measure bandwidth and latency"},
};
constexpr std::array kInstallFlags{
    kHelp,
    Flag{"user", 0, "for yourself, without an administrator: below ~/.config/rollcall/slurm"},
    Flag{"site", 0, "for everybody: plugstack.conf and /etc/rollcall/site.toml"},
    Flag{"status", 0, "say which installation is in force here, and what is wrong with it"},
    Flag{"dry-run", 0, "print what would be written, and write nothing"},
    Flag{"json", 0, "with --status: print JSON"},
};
constexpr std::array kUninstallFlags{
    kHelp,
    Flag{"user", 0, "what rollcall install --user wrote"},
    Flag{"site", 0, "what rollcall install --site wrote"},
    Flag{"dry-run", 0, "print what would be removed, and remove nothing"},
};
constexpr std::array kCompletionFlags{kHelp};
constexpr std::array kProgramFlags{
    kHelp,
    Flag{"version", 0, "print the version"},
    Flag{"print-config", 0, "print every launch setting with its value and where that came from"},
    Flag{"json", 0, "with --print-config: print JSON"},
};

constexpr std::string_view kEnvText =
    R"help(Prints what rollcall would do to the environment of this task: each variable, its value, who knows
it and why. Nothing is changed. Variables that you set are kept. Of a step rank 0 prints.

Examples:
  srun rollcall env                          what rank 0 of this step would get
  srun rollcall env --all-ranks              what every rank would get
  srun rollcall env --json                   the same of every task, for programs
  rollcall env --host-template='{host}i'     try a setting
  eval "$(rollcall env --export)"            apply it to this shell
)help";

constexpr std::string_view kExecText =
    R"help(Sets the environment as the plugin does, then becomes PROGRAM. For sites without the plugin, and for
containers. Options stand before PROGRAM; everything after it belongs to it. Exit code 127: there is
no such program; 126: it cannot be executed; otherwise PROGRAM's own.

Examples:
  srun rollcall exec -- python train.py --lr=0.1
  srun rollcall exec --interface-gloo=ib0 --venv='${HOME}/venv' -- python train.py
)help";

constexpr std::string_view kRunText =
    R"help(Does what torchrun does, for any program, without Python in between: the same options, PET_* variables,
variables for workers, log files and error files. Starts workers on this node, and with an endpoint
on several; starts all anew when one fails, a node comes or goes. Exit code: that of the worker that
failed first (128 + N for signal N); rollcall's own are in docs/reference/errors.md. More: docs/user/elastic.md.

Examples:
  rollcall run --nproc-per-node=4 train.py --lr=0.1
  rollcall run --nproc-per-node=gpu --max-restarts=3 -t 3 --log-dir=logs -m package.train
  rollcall run --nnodes=1:3 --rdzv-backend=c10d --rdzv-endpoint=node01:29400 train.py   on each node
  srun --ddp --ntasks-per-node=1 rollcall run --nproc-per-node=gpu train.py
  rollcall run --status                      what your runs on this host are doing
)help";

constexpr std::string_view kDoctorText =
    R"help(Looks for what would make a distributed job fail on these nodes: names, interfaces, ports, clocks,
SCRATCH, Python environment, versions, devices, cores, shared memory; then times collective
operations between the nodes. Rank 0 prints one report for all. Nothing is changed.
Exit code 69: a check failed; the report says what to do. docs/reference/doctor_checks.md explains every check.

Examples:
  srun --ntasks-per-node=1 rollcall doctor   the nodes of this job
  srun rollcall doctor --json --no-bench     for programs
  srun -n8 rollcall doctor --collectives=gloo,ucx   also what the trainer's backends reach
  rollcall doctor                            this machine alone
)help";

constexpr std::string_view kInstallText =
    R"help(Makes `srun --ddp` work. --user writes files of your own only: a slurm.conf that includes the site's, a
plugstack.conf with rollcall in it, and a task prolog that does on the nodes what the plugin would.
rollcall must stand on a file system that the nodes see. Doing it again changes nothing.

Examples:
  rollcall install --user                    then: export SLURM_CONF=~/.config/rollcall/slurm/slurm.conf
  rollcall install --status                  which installation is in force, and its problems
  rollcall install --site --dry-run          what an administrator's installation would write
  rollcall install --site --root=/srv/image --profile=site_config/generic.toml
)help";

constexpr std::string_view kUninstallText =
    R"help(Takes back what `rollcall install` wrote, and nothing else. A file that was edited since is left
alone, and said.

Examples:
  rollcall uninstall --user
  rollcall uninstall --site --dry-run
)help";

constexpr std::string_view kCompletionText =
    R"help(Prints a completion script. Commands, options and fixed values complete.

Example:
  eval "$(rollcall completion bash)"         in ~/.bashrc
)help";

const std::array kCommands{
    Command{"env", "print the environment that a task gets, with the reasons", "rollcall env [OPTIONS]", kEnvText,
            kEnvFlags, StopAt::Separator, run_env},
    Command{"exec", "set that environment and become PROGRAM", "rollcall exec [OPTIONS] -- PROGRAM [ARGUMENTS]",
            kExecText, kExecFlags, StopAt::Positional, run_exec},
    Command{"run", "start workers on each node as torchrun does, and anew when one fails",
            "rollcall run [OPTIONS] PROGRAM [ARGUMENTS]", kRunText, kRunFlags, StopAt::Positional, nullptr,
            run_options_table(), false, run_run},
    Command{"doctor", "look for what would make a job fail on these nodes", "rollcall doctor [OPTIONS]", kDoctorText,
            kDoctorFlags, StopAt::Separator, run_doctor, doctor_table()},
    Command{"install", "make srun --ddp work, for yourself or for a site",
            "rollcall install --user|--site|--status [OPTIONS]", kInstallText, kInstallFlags, StopAt::Separator,
            run_install, install_table(), true},
    Command{"uninstall", "take back what install wrote", "rollcall uninstall --user|--site [OPTIONS]", kUninstallText,
            kUninstallFlags, StopAt::Separator, run_uninstall, install_table(), true},
    Command{"completion", "print a completion script for bash", "rollcall completion bash", kCompletionText,
            kCompletionFlags, StopAt::Separator, run_completion},
};

std::string options_help(std::span<const command_line::Flag> flags, settings::Table own = {}) {
  const std::array<settings::Table, 2> tables{own, settings::launch_table()};
  return command_line::help_text(flags, tables) +
         "\nEach setting can also stand in a TOML file or in a ROLLCALL_* variable. "
         "`rollcall --print-config`\nshows the values that count here, and where they come from.\n";
}

/// Of a command that reads its arguments itself: its own options alone, of which switches take no value.
std::string whole_options_help(const Command& command) {
  std::vector<Flag> flags(command.flags.begin(), command.flags.end());
  std::vector<settings::Setting> rest;
  for (const settings::Setting& setting : command.table) {
    if (setting.kind == settings::Kind::Switch) {
      flags.push_back({setting.name, elastic::option_letter(setting.name), setting.help});
    } else {
      rest.push_back(setting);
    }
  }
  const std::array<settings::Table, 1> tables{rest};
  return command_line::help_text(flags, tables) +
         "\nNames can be spelled with - or _ and shortened; -r and -t stand for --redirects and --tee. Where an option "
         "is\n"
         "not given, PET_<NAME> counts, as in PET_NPROC_PER_NODE=4.\n";
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == kCommands.end() ? nullptr : &*found;
}

std::span<const Flag> program_flags() { return kProgramFlags; }

std::string program_help() {
  std::string text =
      "Starts distributed training on a Slurm cluster.\n\n"
      "Usage: rollcall COMMAND [OPTIONS]\n\nCommands:\n";
  for (const Command& command : all_commands()) {
    fmt::format_to(std::back_inserter(text), "  {:<32}{}\n", command.name, command.summary);
  }
  text +=
      "  help COMMAND                    explain a command, with examples\n"
      "  NAME                            any other: run the program rollcall-NAME from PATH\n\n";
  return text + options_help(program_flags());
}

std::string command_help(const Command& command) {
  const std::string options =
      command.run_whole == nullptr ? options_help(command.flags, command.table) : whole_options_help(command);
  return fmt::format("Usage: {}\n\n{}\n{}", command.usage, command.text, options);
}

}  // namespace rollcall::cli

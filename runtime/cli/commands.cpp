#include "runtime/cli/command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "runtime/cli/env_command.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/help.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::cli {
namespace {

using command_line::Flag;
using command_line::HelpPage;
using command_line::kHelp;
using command_line::StopAt;
using command_line::Word;

constexpr std::array kEnvFlags{
    kHelp,
    Flag{"json", 0, "Print facts, variables, warnings and sources as JSON"},
    Flag{"export", 0, "Print lines for a shell: export NAME='value' and unset NAME"},
    Flag{"all-ranks", 0, "Print the table of every rank, each line with its rank in front"},
    Flag{"verbose", 'v', "Print the sources of the facts as well, and the facts"},
};
constexpr std::array kExecFlags{kHelp};
constexpr std::array kRunFlags{kHelp};
constexpr std::array kDoctorFlags{
    kHelp,
    Flag{"json", 0, "Print one JSON object"},
    Flag{"list", 0, "List the checks and what each looks at"},
    Flag{"no-bench", 0, "Do not measure bandwidth and latency"},
};
constexpr std::array kInstallFlags{
    kHelp,
    Flag{"user", 0, "Install for yourself, in ~/.config/rollcall/slurm"},
    Flag{"site", 0, "Install for all users: plugstack.conf and /etc/rollcall/site.toml"},
    Flag{"status", 0, "Show which installation is in use, and its problems"},
    Flag{"dry-run", 0, "Print what would be written, and write nothing"},
    Flag{"json", 0, "With --status: print JSON"},
};
constexpr std::array kUninstallFlags{
    kHelp,
    Flag{"user", 0, "Remove what rollcall install --user wrote"},
    Flag{"site", 0, "Remove what rollcall install --site wrote"},
    Flag{"dry-run", 0, "Print what would be removed, and remove nothing"},
};
constexpr std::array kCompletionFlags{kHelp};
constexpr std::array kShells{Word{"bash", "for ~/.bashrc"}, Word{"zsh", "for ~/.zshrc, after compinit"},
                             Word{"fish", "for ~/.config/fish/config.fish"}};
constexpr std::array kProgramFlags{
    kHelp,
    command_line::kVersion,
    Flag{"print-config", 0, "Print every launch setting with its value and where that comes from"},
    Flag{"json", 0, "With --print-config or --version: print JSON"},
};

constexpr std::array kPrograms{
    Program{"train", "train a ResNet on all ranks of a Slurm step"},
    Program{"predict", "say which classes a trained model takes images for"},
    Program{"pack", "pack a folder of images into one HDF5 file"},
    Program{"checkpoint", "list, check, compare, convert and prune checkpoints"},
    Program{"report", "write a page about a training, or compare several"},
    Program{"top", "show a training while it runs"},
    Program{"bench-collectives", "measure collectives among the ranks of a step"},
};

constexpr std::string_view kEnvText =
    R"help(Prints what rollcall would change in the environment of this task: each variable with its value, origin
and reason. Nothing is changed. Variables that you set are kept. In a step only rank 0 prints.

Examples:
  srun rollcall env                          the environment of rank 0 of this step
  srun rollcall env --all-ranks              that of every rank
  srun rollcall env --json                   that of every task, for programs
  rollcall env --host-template='{host}i'     try a setting
  eval "$(rollcall env --export)"            apply it to this shell
)help";

constexpr std::string_view kExecText =
    R"help(Sets the environment as the plugin does, then becomes PROGRAM. This is for sites without the plugin,
and for containers. Options of rollcall come before PROGRAM. Everything after it belongs to PROGRAM.
Exit code: that of PROGRAM; 127: PROGRAM does not exist; 126: it cannot be executed.

Examples:
  srun rollcall exec -- python train.py --lr=0.1
  srun rollcall exec --interface-gloo=ib0 --venv='${HOME}/venv' -- python train.py
)help";

constexpr std::string_view kRunText =
    R"help(Does what torchrun does, for any program and without Python: the same options, PET_* variables, variables
for workers, log files and error files. It starts workers on this node, or on several nodes with an
endpoint. It restarts all workers if one fails or a node comes or goes. Exit code: that of the worker
that failed first (128 + N for signal N), or a code of docs/reference/errors.md. See docs/user/elastic.md.

Examples:
  rollcall run --nproc-per-node=4 train.py --lr=0.1
  rollcall run --nproc-per-node=gpu --max-restarts=3 -t 3 --log-dir=logs -m package.train
  rollcall run --nnodes=1:3 --rdzv-backend=c10d --rdzv-endpoint=node01:29400 train.py   on each node
  srun --ddp --ntasks-per-node=1 rollcall run --nproc-per-node=gpu train.py
  rollcall run --status                      show what your runs on this host are doing
)help";

constexpr std::string_view kDoctorText =
    R"help(Checks these nodes for problems that make a distributed job fail: names, interfaces, ports, clocks,
SCRATCH, Python environment, versions, devices, cores and shared memory. Then it measures collectives
between the nodes. Rank 0 prints one report. Nothing is changed. Exit code 69: a check failed, and the
report says what to do. docs/reference/doctor_checks.md explains every check.

Examples:
  srun --ntasks-per-node=1 rollcall doctor   check the nodes of this job
  srun rollcall doctor --json --no-bench     the same for programs
  srun -n8 rollcall doctor --collectives=gloo,ucx   measure the backends of rollcall-train too
  rollcall doctor                            check this machine alone
)help";

constexpr std::string_view kInstallText =
    R"help(Makes `srun --ddp` work. --user writes only files of your own: a slurm.conf that includes the site's, a
plugstack.conf with rollcall in it, and a task prolog that replaces the plugin on the nodes. rollcall
must be on a file system of all nodes. A second run changes nothing.

Examples:
  rollcall install --user                    then: export SLURM_CONF=~/.config/rollcall/slurm/slurm.conf
  rollcall install --status                  which installation is in use, and its problems
  rollcall install --site --dry-run          what an administrator's installation would write
  rollcall install --site --root=/srv/image --profile=site_config/generic.toml
)help";

constexpr std::string_view kUninstallText =
    R"help(Removes what `rollcall install` wrote, and nothing else. It does not change files that were edited since,
and names them.

Examples:
  rollcall uninstall --user
  rollcall uninstall --site --dry-run
)help";

constexpr std::string_view kCompletionText =
    R"help(Prints the completion script of a shell: commands, options and fixed values of all programs. It starts no
program. An installation has these files where bash-completion, zsh and fish look for them below /usr and
/usr/local. Elsewhere, or for yourself:

Examples:
  eval "$(rollcall completion bash)"         in ~/.bashrc
  eval "$(rollcall completion zsh)"          in ~/.zshrc, after compinit
  rollcall completion fish | source          in ~/.config/fish/config.fish
)help";

const std::array kCommands{
    Command{"env", "print the environment that a task gets, with the reasons", "rollcall env [OPTIONS]", kEnvText,
            kEnvFlags, StopAt::Separator, run_env},
    Command{"exec", "set that environment and become PROGRAM", "rollcall exec [OPTIONS] -- PROGRAM [ARGUMENTS]",
            kExecText, kExecFlags, StopAt::Positional, run_exec},
    Command{"run", "start workers as torchrun does, and restart them if one fails",
            "rollcall run [OPTIONS] PROGRAM [ARGUMENTS]", kRunText, kRunFlags, StopAt::Positional, nullptr,
            run_options_table(), false, run_run},
    Command{"doctor", "check these nodes for problems that make a job fail", "rollcall doctor [OPTIONS]", kDoctorText,
            kDoctorFlags, StopAt::Separator, run_doctor, doctor_table()},
    Command{"install", "make srun --ddp work, for yourself or for a site",
            "rollcall install --user|--site|--status [OPTIONS]", kInstallText, kInstallFlags, StopAt::Separator,
            run_install, install_table(), true},
    Command{"uninstall", "remove what install wrote", "rollcall uninstall --user|--site [OPTIONS]", kUninstallText,
            kUninstallFlags, StopAt::Separator, run_uninstall, uninstall_table(), true},
    Command{"completion",
            "print a completion script for bash, zsh or fish",
            "rollcall completion bash|zsh|fish",
            kCompletionText,
            kCompletionFlags,
            StopAt::Separator,
            run_completion,
            {},
            false,
            nullptr,
            kShells},
};

constexpr std::string_view kRunClosing =
    "\nNames can be spelled with - or _ and shortened. -m, -r and -t stand for --module, --redirects and --tee.\n"
    "Where an option is not given, PET_<NAME> counts, as in PET_NPROC_PER_NODE=4.\n";

constexpr std::string_view kSettingsText =
    R"help(Launch settings determine how ranks meet and which environment a task gets. Each is:
  an option of rollcall env, exec, doctor and install, of rollcall-train, rollcall-predict and
  rollcall-bench-collectives:
                                             --port-range=20000-20999
  a key of srun --ddp:                       srun --ddp=port.range=20000-20999
  a variable:                                ROLLCALL_PORT_RANGE=20000-20999
  a key of a TOML file, table [port]:        range = "20000-20999"
`rollcall --print-config` shows the values that are in use here, and where each comes from.
)help";

HelpPage settings_page() {
  return {.name = "Launch settings", .text = std::string(kSettingsText), .tables = {settings::launch_table()}};
}

HelpPage page_of(const Command& command) {
  return {.name = fmt::format("rollcall {}", command.name),
          .text = fmt::format("usage: {}\n\n{}", command.usage, command.text),
          .flags = {command.flags.begin(), command.flags.end()},
          .tables = {command.table},
          .closing = command.run_whole == nullptr ? "" : kRunClosing,
          .takes_launch_settings = command.run_whole == nullptr,
          .words = {command.words.begin(), command.words.end()}};
}

/// The page of the program itself: commands, programs, its flags.
HelpPage program_page() {
  HelpPage page{
      .name = "rollcall", .flags = {kProgramFlags.begin(), kProgramFlags.end()}, .takes_launch_settings = true};
  page.text = "Starts distributed training on a Slurm cluster.\n\nusage: rollcall COMMAND [OPTIONS]\n\nCommands:\n";
  const auto out = std::back_inserter(page.text);
  for (const Command& command : kCommands) {
    fmt::format_to(out, "  {:<32}{}\n", command.name, command.summary);
    page.commands.push_back(page_of(command));
    page.words.push_back({command.name, command.summary});
  }
  page.commands.push_back(settings_page());
  page.words.push_back({"help", "explain a command or program"});
  fmt::format_to(out, "  {:<32}{}\n\nPrograms (`rollcall NAME` runs rollcall-NAME):\n", "help NAME [GROUP]",
                 "explain a command or program, or one group of its options");
  for (const Program& program : kPrograms) {
    fmt::format_to(out, "  {:<32}{}\n", program.name, program.summary);
    page.words.push_back({program.name, program.summary});
  }
  return page;
}

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

const Command* find_command(std::string_view name) {
  const auto found = std::ranges::find(kCommands, name, &Command::name);
  return found == kCommands.end() ? nullptr : &*found;
}

std::span<const Flag> program_flags() { return kProgramFlags; }

std::span<const Program> all_programs() { return kPrograms; }

Result<std::string> program_help(std::string_view topic) { return command_line::help_text(program_page(), topic); }

Result<std::string> command_help(const Command& command, std::string_view topic) {
  return command_line::help_text(page_of(command), topic);
}

Result<std::string> settings_help(std::string_view topic) { return command_line::help_text(settings_page(), topic); }

}  // namespace rollcall::cli

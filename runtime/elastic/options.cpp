#include "runtime/elastic/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <optional>

#include "runtime/base/text.h"
#include "runtime/elastic/option_values.h"

namespace rollcall::elastic {
namespace {

using settings::Kind;
using settings::Setting;

constexpr std::string_view kNodes = "Nodes and workers";
constexpr std::string_view kMeeting = "Rendezvous";
constexpr std::string_view kProgram = "Program";
constexpr std::string_view kLogs = "Logs";
constexpr std::string_view kFailure = "Failures and signals";
constexpr std::string_view kOwn = "Not in torchrun";

// rollcall's own options follow torchrun's and cannot be abbreviated, so that they make no abbreviation of torchrun's
// ambiguous.
constexpr std::array kRunTable{
    Setting{"nnodes", Kind::Text, "1:1", "N|MIN:MAX", "Number of nodes, or the range within which they come and go",
            kNodes}
        .common(),
    Setting{"nproc-per-node", Kind::Text, "1", "N|auto|cpu|gpu|xpu",
            "Workers on this node. auto: one for each GPU, without GPUs one for each CPU", kNodes, "auto|cpu|gpu|xpu"}
        .common(),
    Setting{"node-rank", Kind::Integer, "0", "N", "Rank of this node with --rdzv-backend=static", kNodes, "", 0, 1e9}
        .common(),
    Setting{"numa-binding", Kind::Choice, "none", "MODE", "Not supported. Bind workers with Slurm instead", kNodes,
            "none|node|socket|exclusive|core-complex"},
    Setting{"virtual-local-rank", Kind::Switch, "false", "",
            "Set LOCAL_RANK to 0 in all workers. Each sees only its own GPU", kNodes},

    Setting{"standalone", Kind::Switch, "false", "", "Use one node, without an endpoint", kMeeting}.common(),
    Setting{"rdzv-backend", Kind::Text, "static", "NAME",
            "How nodes get their ranks. static: from --node-rank. c10d: in the order in which they come", kMeeting,
            "static|c10d"}
        .common(),
    Setting{"rdzv-endpoint", Kind::Text, "", "HOST[:PORT]", "Where the nodes meet. The default port is 29400", kMeeting}
        .common(),
    Setting{"rdzv-id", Kind::Text, "none", "ID", "Name of the run. Nodes of other runs are refused", kMeeting}.common(),
    Setting{"rdzv-conf", Kind::Text, "", "KEY=VALUE[,...]",
            "Details of the rendezvous. join_timeout=600, last_call_timeout=30 and heartbeat_timeout=2 are "
            "seconds. is_host=auto says whether this node leads. secret=FILE holds a secret of this run's agents "
            "[of the step, or your own]",
            kMeeting},
    Setting{"master-addr", Kind::Text, "127.0.0.1", "HOST", "Address of node 0 with --rdzv-backend=static", kMeeting}
        .common(),
    Setting{"master-port", Kind::Integer, "29500", "PORT", "Port of node 0 with --rdzv-backend=static", kMeeting, "", 1,
            65535}
        .common(),
    Setting{"local-addr", Kind::Text, "", "HOST", "Address of this node for the other nodes [found by itself]",
            kMeeting},

    Setting{"module", Kind::Switch, "false", "", "Run the program as a Python module, like python -m", kProgram}
        .common(),
    Setting{"no-python", Kind::Switch, "false", "", "Execute the program itself, without Python", kProgram}.common(),
    Setting{"run-path", Kind::Switch, "false", "", "Run the program as a Python script, even with --no-python",
            kProgram},
    Setting{"role", Kind::Text, "default", "NAME", "ROLE_NAME of the workers", kProgram},
    Setting{"start-method", Kind::Choice, "spawn", "METHOD", "Accepted without effect. Workers are programs", kProgram,
            "spawn|fork|forkserver"},

    Setting{"log-dir", Kind::Text, "", "DIR",
            "Folder of the log files. Each run has a folder in it, with one for each attempt", kLogs}
        .common(),
    Setting{"redirects", Kind::Text, "0", "STREAMS",
            "Streams that go to files. 0: none, 1: standard output, 2: standard error, 3: both. By local rank: "
            "0:3,1:1",
            kLogs}
        .common(),
    Setting{"tee", Kind::Text, "0", "STREAMS",
            "Streams that go to files and to the terminal. Each line begins with its worker", kLogs}
        .common(),
    Setting{"log-line-prefix-template", Kind::Text, "", "TEXT",
            "Prefix of the lines of --tee. It may contain ${role_name}, ${local_rank}, ${rank} and ${hostname}", kLogs},
    Setting{"local-ranks-filter", Kind::Text, "", "N[,N...]", "Show only these local ranks on the terminal", kLogs},
    Setting{"duplicate-stdout-filters", Kind::Text, "", "WORD[,WORD...]",
            "Copy lines of --tee with one of these words to filtered_stdout.log as well", kLogs},
    Setting{"duplicate-stderr-filters", Kind::Text, "", "WORD[,WORD...]",
            "Copy lines of --tee with one of these words to filtered_stderr.log as well", kLogs},
    Setting{"logs-specs", Kind::Text, "", "NAME", "Not supported. It names a Python plugin of torchrun", kLogs},
    Setting{"event-log-handler", Kind::Text, "null", "NAME", "Accepted without effect", kLogs},

    Setting{"max-restarts", Kind::Integer, "0", "N", "How often all workers are restarted after one failed", kFailure,
            "", 0, 1e9}
        .common(),
    Setting{"monitor-interval", Kind::Number, "0.1", "SECONDS",
            "Accepted without effect. The end of a worker is noticed at once", kFailure, "", 0, 1e9},
    Setting{"shutdown-timeout", Kind::Integer, "30", "SECONDS", "Time between TERM and KILL when workers are stopped",
            kFailure, "", 0, 1e6},
    Setting{"signals-to-handle", Kind::Text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "NAME[,NAME...]",
            "Signals that end the run. They are passed to the workers, which have --shutdown-timeout to end. "
            "USR1 and USR2 are always passed on",
            kFailure},
    Setting{"print-completion", Kind::Choice, "none", "SHELL", "Print a completion script", kFailure,
            "none|bash|zsh|fish|tcsh"},

    Setting{"give-up-after", Kind::Integer, "8", "N", "End after N generations in a row that ran for less than 30 s",
            kOwn, "", 1, 1e9},
    Setting{"no-standby", Kind::Switch, "false", "",
            "Keep no standby worker. A program that continues when its world changes otherwise has one more "
            "process on each node, ready to replace a worker that fails",
            kOwn},
    Setting{"status", Kind::Switch, "false", "", "Show what your runs on this host are doing", kOwn}.common(),
    Setting{"json", Kind::Switch, "false", "", "Print JSON with --status", kOwn},
};

/// A torchrun option with a letter.
struct Letter {
  char letter;
  std::string_view name;
};
constexpr std::array kLetters{Letter{'m', "module"}, Letter{'r', "redirects"}, Letter{'t', "tee"}};

constexpr std::array<std::string_view, 3> kWithoutVariable{"logs-specs", "numa-binding", "print-completion"};

std::string with_dashes(std::string_view name) {
  std::string dashed(name);
  std::ranges::replace(dashed, '_', '-');
  return dashed;
}

std::string double_dash(std::string_view name) { return "--" + std::string(name); }

/// Help is not a setting, but can be abbreviated like one.
constexpr std::string_view kHelp = "help";

/// Returns the name of the option that `typed` (without dashes) means, or why there is none.
Result<std::string_view> option_named(std::string_view typed) {
  const std::string name = with_dashes(typed);
  std::vector<std::string_view> begun;
  for (const Setting& setting : kRunTable) {
    if (setting.name == name) {
      return setting.name;
    }
    if (setting.group != kOwn && setting.name.starts_with(name)) {
      begun.push_back(setting.name);
    }
  }
  if (kHelp.starts_with(name)) {
    begun.push_back(kHelp);
  }
  if (begun.size() == 1 && !name.empty()) {
    return begun.front();
  }
  if (begun.size() > 1 && !name.empty()) {
    return fail(double_dash(typed), "", "is ambiguous",
                fmt::format("writing one of --{} in full", fmt::join(begun, ", --")));
  }
  std::vector<std::string> known{double_dash(kHelp)};
  for (const Setting& setting : kRunTable) {
    known.push_back(double_dash(setting.name));
  }
  return fail(double_dash(typed), "", "unknown option",
              nearest(double_dash(name), known).value_or("rollcall run --help"));
}

bool is_switch(std::string_view name) {
  const Setting* const setting = settings::find_setting(kRunTable, name);
  return name == kHelp || (setting != nullptr && setting->kind == Kind::Switch);
}

/// Matches "-1", "-0.5", "-.5".
bool is_negative_number(std::string_view text) {
  text.remove_prefix(1);
  const std::size_t point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  const std::string_view fraction = point == std::string_view::npos ? "" : text.substr(point + 1);
  const auto digits = [](std::string_view part) { return part.find_first_not_of("0123456789") == part.npos; };
  return digits(whole) && digits(fraction) && (point == std::string_view::npos ? !whole.empty() : !fraction.empty());
}

/// Decides as argparse does: negative numbers, and texts with a blank that name no option ("- ${rank}: "), can be
/// values and programs; "-x" and "--x" cannot.
bool looks_like_option(const std::string& argument) {
  if (argument.size() < 2 || argument.front() != '-' || is_negative_number(argument)) {
    return false;
  }
  const bool named = argument[1] == '-' ? argument.find('=') < argument.find(' ')
                                        : std::ranges::find(kLetters, argument[1], &Letter::letter) != kLetters.end();
  return named || argument.find(' ') == std::string::npos;
}

/// Sets a value; whole numbers may be written as in Python.
Result<void> set_value(settings::Settings& values, std::string_view name, const std::string& text,
                       const std::string& origin) {
  const bool whole = settings::find_setting(kRunTable, name)->kind == Kind::Integer;
  const std::optional<std::int64_t> number = whole ? python_integer(text) : std::nullopt;
  return values.set(name, number ? std::to_string(*number) : text, origin);
}

class Reader {
 public:
  Reader(std::span<const std::string> arguments, RunOptions& options) : arguments_(arguments), options_(options) {}

  Result<void> read() {
    for (; next_ < arguments_.size(); ++next_) {
      const std::string& argument = arguments_[next_];
      if (argument == "--" || !looks_like_option(argument)) {
        read_program(argument == "--");
        return {};
      }
      RETURN_IF_ERROR(argument.starts_with("--") ? read_name(argument.substr(2)) : read_letters(argument.substr(1)));
    }
    return {};
  }

 private:
  /// Reads the program. One "--" ends the options: before the program or directly after it; it is not passed to the
  /// program.
  void read_program(bool separated) {
    next_ += separated ? 1U : 0U;
    std::vector<std::string>& program = options_.program;
    program.assign(arguments_.begin() + static_cast<std::ptrdiff_t>(next_), arguments_.end());
    if (!separated && program.size() > 1 && program[1] == "--") {
      program.erase(program.begin() + 1);
    }
  }

  Result<void> read_name(const std::string& text) {
    const std::size_t equals = text.find('=');
    ASSIGN_OR_RETURN(const std::string_view name, option_named(text.substr(0, equals)));
    return apply(name, double_dash(name),
                 equals == std::string::npos ? std::nullopt : std::optional(text.substr(equals + 1)));
  }

  /// Reads "-m", "-r3", "-r=3", "-r 3", "-mr3".
  Result<void> read_letters(std::string letters) {
    while (!letters.empty()) {
      const auto known = std::ranges::find(kLetters, letters.front(), &Letter::letter);
      const std::string shown = fmt::format("-{}", letters.front());
      if (known == kLetters.end() && letters.front() != 'h') {
        return fail(shown, "", "unknown option", "rollcall run --help");
      }
      const std::string_view name = known == kLetters.end() ? kHelp : known->name;
      letters.erase(0, 1);
      if (is_switch(name)) {
        RETURN_IF_ERROR(apply(name, shown, std::nullopt));
        continue;
      }
      const bool joined = !letters.empty();
      const std::string value = letters.starts_with('=') ? letters.substr(1) : letters;
      return apply(name, shown, joined ? std::optional(value) : std::nullopt);
    }
    return {};
  }

  Result<void> apply(std::string_view name, const std::string& shown, std::optional<std::string> value) {
    if (is_switch(name)) {
      if (name == kHelp) {
        options_.help_topic = value.value_or("");
        return {};
      }
      if (value) {
        return fail(shown, *value, "takes no value", "giving " + shown + " without a value");
      }
      return options_.values.set(name, "true", double_dash(name));
    }
    if (!value && (next_ + 1 == arguments_.size() || looks_like_option(arguments_[next_ + 1]))) {
      return fail(shown, "", "needs a value",
                  fmt::format("--{}={}", name, settings::find_setting(kRunTable, name)->argument));
    }
    return set_value(options_.values, name, value ? *value : arguments_[++next_], double_dash(name));
  }

  std::span<const std::string> arguments_;
  RunOptions& options_;
  std::size_t next_ = 0;
};

/// Returns a switch's text: "true" where its variable is a number other than 0, as in
/// torch/distributed/argparse_util.py.
Result<std::string> switch_text(const std::string& variable, const std::string& text) {
  const auto number = python_integer(text);
  if (!number) {
    return fail(variable, text, "must be 0 or 1", "unsetting " + variable);
  }
  return std::string(*number == 0 ? "false" : "true");
}

Result<void> read_defaults(const Environment& environment, settings::Settings& values) {
  for (const Setting& setting : kRunTable) {
    const std::string variable = default_variable(setting.name);
    const std::optional<std::string> text = variable.empty() ? std::nullopt : environment.get_non_empty(variable);
    if (!text) {
      continue;
    }
    ASSIGN_OR_RETURN(const std::string value,
                     setting.kind == Kind::Switch ? switch_text(variable, *text) : Result(*text));
    if (!values.is_default(setting.name)) {
      continue;  // argparse ignores an unneeded default
    }
    if (Result<void> set = set_value(values, setting.name, value, variable); !set) {
      Error error = set.error();
      error.setting = variable;
      return error;
    }
  }
  return {};
}

}  // namespace

settings::Table run_table() { return kRunTable; }

std::string default_variable(std::string_view name) {
  const Setting* const setting = settings::find_setting(kRunTable, name);
  if (setting == nullptr || setting->group == kOwn ||
      std::ranges::find(kWithoutVariable, name) != kWithoutVariable.end()) {
    return "";
  }
  return "PET_" + settings::variable_name(name).substr(std::string_view("ROLLCALL_").size());
}

Result<RunOptions> parse_run_options(std::span<const std::string> arguments, const Environment& environment) {
  RunOptions options{settings::Settings(kRunTable), {}, {}};
  RETURN_IF_ERROR(Reader(arguments, options).read());
  RETURN_IF_ERROR(read_defaults(environment, options.values));
  return options;
}

}  // namespace rollcall::elastic

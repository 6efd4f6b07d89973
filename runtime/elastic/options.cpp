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
constexpr std::string_view kOwn = "rollcall's own";

// rollcall's own options follow torchrun's and cannot be abbreviated, so that they make no abbreviation of torchrun's
// ambiguous.
constexpr std::array kRunTable{
    Setting{"nnodes", Kind::Text, "1:1", "N|MIN:MAX", "number of nodes, or the range of an elastic run", kNodes},
    Setting{"nproc-per-node", Kind::Text, "1", "N|auto|cpu|gpu|xpu",
            "workers on this node; auto: one per GPU, or without GPUs one per CPU", kNodes, "auto|cpu|gpu|xpu"},
    Setting{"node-rank", Kind::Integer, "0", "N", "number of this node, with --rdzv-backend=static", kNodes, "", 0,
            1e9},
    Setting{"numa-binding", Kind::Choice, "none", "MODE", "not supported yet: use Slurm's --cpu-bind", kNodes,
            "none|node|socket|exclusive|core-complex"},
    Setting{"virtual-local-rank", Kind::Switch, "false", "SWITCH",
            "LOCAL_RANK is 0 in all workers, and each sees only its own GPU", kNodes},

    Setting{"standalone", Kind::Switch, "false", "SWITCH", "one node, which needs no endpoint", kMeeting},
    Setting{"rdzv-backend", Kind::Text, "static", "NAME",
            "static: nodes are numbered by --node-rank; c10d: in the order in which they join", kMeeting,
            "static|c10d"},
    Setting{"rdzv-endpoint", Kind::Text, "", "HOST[:PORT]", "where the nodes connect; the default port is 29400",
            kMeeting},
    Setting{"rdzv-id", Kind::Text, "none", "ID", "name of the run; nodes of another run are refused", kMeeting},
    Setting{"rdzv-conf", Kind::Text, "", "KEY=VALUE[,...]",
            "join_timeout=600, last_call_timeout=30, heartbeat_timeout=2: seconds; is_host=auto; secret=FILE, known "
            "only to agents of this run [the step\'s, or your own]",
            kMeeting},
    Setting{"master-addr", Kind::Text, "127.0.0.1", "HOST", "address of node 0, with --rdzv-backend=static", kMeeting},
    Setting{"master-port", Kind::Integer, "29500", "PORT", "port of node 0, with --rdzv-backend=static", kMeeting, "",
            1, 65535},
    Setting{"local-addr", Kind::Text, "", "HOST", "address by which other nodes reach this one [detected]", kMeeting},

    Setting{"module", Kind::Switch, "false", "SWITCH", "the program is a Python module, as with python -m", kProgram},
    Setting{"no-python", Kind::Switch, "false", "SWITCH", "the program is executed directly, not by Python", kProgram},
    Setting{"run-path", Kind::Switch, "false", "SWITCH", "the program is a Python script, even with --no-python",
            kProgram},
    Setting{"role", Kind::Text, "default", "NAME", "ROLE_NAME of the workers", kProgram},
    Setting{"start-method", Kind::Choice, "spawn", "METHOD", "accepted without effect: workers are programs", kProgram,
            "spawn|fork|forkserver"},

    Setting{"log-dir", Kind::Text, "", "DIR", "each run creates a folder there, with one for each attempt", kLogs},
    Setting{"redirects", Kind::Text, "0", "STREAMS",
            "to files: 0 nothing, 1 standard output, 2 standard error, 3 both; or by local rank, as 0:3,1:1", kLogs},
    Setting{"tee", Kind::Text, "0", "STREAMS", "to files and to the terminal, each line with its worker", kLogs},
    Setting{"log-line-prefix-template", Kind::Text, "", "TEXT",
            "prefix of lines of --tee, with ${role_name}, ${local_rank}, ${rank}, ${hostname}", kLogs},
    Setting{"local-ranks-filter", Kind::Text, "", "N[,N...]", "show only these local ranks on the terminal", kLogs},
    Setting{"duplicate-stdout-filters", Kind::Text, "", "WORD[,WORD...]",
            "also copy lines of --tee with one of these words to filtered_stdout.log", kLogs},
    Setting{"duplicate-stderr-filters", Kind::Text, "", "WORD[,WORD...]", "the same for standard error", kLogs},
    Setting{"logs-specs", Kind::Text, "", "NAME", "refused: a Python plugin of torchrun", kLogs},
    Setting{"event-log-handler", Kind::Text, "null", "NAME", "accepted, without effect", kLogs},

    Setting{"max-restarts", Kind::Integer, "0", "N", "how often all workers are restarted after one failed", kFailure,
            "", 0, 1e9},
    Setting{"monitor-interval", Kind::Number, "0.1", "SECONDS",
            "accepted without effect: a worker's end is noticed immediately", kFailure, "", 0, 1e9},
    Setting{"shutdown-timeout", Kind::Integer, "30", "SECONDS", "time between TERM and KILL when workers are stopped",
            kFailure, "", 0, 1e6},
    Setting{"signals-to-handle", Kind::Text, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "NAME[,NAME...]",
            "signals that end the run; each is forwarded to the workers, which then have --shutdown-timeout. USR1 and "
            "USR2 are always forwarded",
            kFailure},
    Setting{"print-completion", Kind::Choice, "none", "SHELL", "print a completion script", kFailure,
            "none|bash|zsh|tcsh"},

    Setting{"give-up-after", Kind::Integer, "8", "N",
            "end after this many consecutive generations that ran for less than 30 s", kOwn, "", 1, 1e9},
    Setting{"no-standby", Kind::Switch, "false", "SWITCH",
            "keep no extra process per node that is ready to replace a failed worker, for programs that continue when "
            "their world changes",
            kOwn},
    Setting{"status", Kind::Switch, "false", "SWITCH", "show what your runs on this host are doing", kOwn},
    Setting{"json", Kind::Switch, "false", "SWITCH", "with --status: print JSON", kOwn},
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
    return fail(double_dash(typed), "", "is ambiguous", fmt::format("--{}", fmt::join(begun, " or --")));
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
      Result<void> done = argument.starts_with("--") ? read_name(argument.substr(2)) : read_letters(argument.substr(1));
      if (!done) {
        return done;
      }
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
        if (Result<void> done = apply(name, shown, std::nullopt); !done) {
          return done;
        }
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
      if (value) {
        return fail(shown, *value, "takes no value", "giving " + shown + " without a value");
      }
      options_.help = options_.help || name == kHelp;
      return name == kHelp ? Result<void>() : options_.values.set(name, "true", double_dash(name));
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

char option_letter(std::string_view name) {
  const auto found = std::ranges::find(kLetters, name, &Letter::name);
  return found == kLetters.end() ? '\0' : found->letter;
}

std::string default_variable(std::string_view name) {
  const Setting* const setting = settings::find_setting(kRunTable, name);
  if (setting == nullptr || setting->group == kOwn ||
      std::ranges::find(kWithoutVariable, name) != kWithoutVariable.end()) {
    return "";
  }
  return "PET_" + settings::variable_name(name).substr(std::string_view("ROLLCALL_").size());
}

Result<RunOptions> parse_run_options(std::span<const std::string> arguments, const Environment& environment) {
  RunOptions options{settings::Settings(kRunTable), false, {}};
  RETURN_IF_ERROR(Reader(arguments, options).read());
  RETURN_IF_ERROR(read_defaults(environment, options.values));
  return options;
}

}  // namespace rollcall::elastic

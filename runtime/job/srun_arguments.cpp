#include "runtime/job/srun_arguments.h"

namespace rollcall::job {
namespace {

// Options without an argument, or with one only after "=": `srun --help` of Slurm 22.05 to 26.05.
constexpr std::string_view kAlone = "EHIKOQVXZhklsuv";
constexpr std::string_view kAloneLong =
    "|async|bcast|compress|consolidate-segments|contiguous|ddp|disable-status|exact|exclusive|"
    "external-launcher|get-user-env|help|hold|immediate|interactive|kill-on-bad-exit|label|"
    "multi-prog|nice|no-allocate|no-kill|oom-kill-step|overcommit|overlap|oversubscribe|parsable|"
    "preserve-env|propagate|pty|quiet|quit-on-interrupt|reboot|resv-ports|send-libs|share|spread-job|"
    "spread-segments|test-only|unbuffered|usage|use-min-nodes|verbose|version|wait-for-children|x11|";
// Options with an argument, which may be the next word.
constexpr std::string_view kWithArgumentLong =
    "|accel-bind|account|acctg-freq|bb|bbf|bcast-exclude|begin|chdir|cluster-constraint|clusters|"
    "comment|constraint|container|container-id|container-type|core-spec|cores-per-socket|cpu-bind|"
    "cpu-freq|cpus-per-gpu|cpus-per-task|ctrl-comm-ifhn|deadline|delay-boot|dependency|distribution|"
    "environment|epilog|error|exclude|export|extra|extra-node-info|gid|gpu-bind|gpu-freq|gpus|"
    "gpus-per-node|gpus-per-socket|gpus-per-task|gres|gres-flags|het-group|hint|ignore-signals|"
    "input|job-name|jobid|licenses|mail-type|mail-user|max-threads|mcs-label|mem|mem-bind|"
    "mem-per-cpu|mem-per-gpu|mincpus|mpi|mpi-combine|network|nodefile|nodelist|nodes|ntasks|"
    "ntasks-per-core|ntasks-per-gpu|ntasks-per-node|ntasks-per-socket|ntasks-per-tres|open-mode|"
    "output|partition|power|prefer|priority|profile|prolog|qos|relative|reservation|segment|signal|"
    "slurmd-debug|sockets-per-node|switches|task-epilog|task-prolog|thread-spec|threads|"
    "threads-per-core|time|time-min|tmp|tree-width|treewidth|tres-bind|tres-per-task|uid|wait|wckey|";

bool lists(std::string_view names, std::string_view word) {
  return names.find("|" + std::string(word.substr(2)) + "|") != std::string_view::npos;
}

/// Returns whether the word after the long option `word` may be its argument or the program: the option is unknown,
/// such as one of another plugin or of a newer Slurm.
bool is_ambiguous(std::string_view word) {
  return word.starts_with("--") && word.find('=') == std::string_view::npos && !lists(kAloneLong, word) &&
         !lists(kWithArgumentLong, word);
}

/// Returns whether the argument of the option `word` is the next word.
bool takes_next_word(std::string_view word) {
  if (word.starts_with("--")) {
    return lists(kWithArgumentLong, word);
  }
  // "-lN2": the first letter that takes an argument takes the rest of the word, if there is one.
  const std::size_t first = word.find_first_not_of(kAlone, 1);
  return first == word.size() - 1;
}

}  // namespace

std::optional<std::string> srun_option(std::span<const std::string> arguments, std::string_view option) {
  std::optional<std::string> found;
  bool before_program = true;
  for (std::size_t i = 1; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    if (word == ":") {
      before_program = true;  // srun's separator of het components
      continue;
    }
    if (!before_program) {
      continue;
    }
    if (word == "--" || word.size() < 2 || !word.starts_with('-')) {
      before_program = false;
      continue;
    }
    const std::string_view name = word.substr(0, word.find('='));
    const bool is_last = i + 1 == arguments.size() || arguments[i + 1].starts_with('-') || arguments[i + 1] == ":";
    if (is_ambiguous(word) && !is_last) {
      before_program = false;
      continue;
    }
    if (name == option) {
      found = name.size() < word.size() ? std::string(word.substr(name.size() + 1)) : "";
    }
    if (takes_next_word(word) && i + 1 < arguments.size() && !arguments[i + 1].starts_with('-')) {
      ++i;
      found = name == option ? arguments[i] : found;
    }
  }
  return found;
}

}  // namespace rollcall::job

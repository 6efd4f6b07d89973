#include "runtime/elastic/launch_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/elastic/option_values.h"

namespace rollcall::elastic {
namespace {

using settings::Settings;

Result<NodeRange> node_range(const Settings& values) {
  const std::vector<std::string> ends = split(values.text("nnodes"), ':');
  const auto least = python_count(ends.empty() ? "" : ends.front());
  const auto most = python_count(ends.empty() ? "" : ends.back());
  if (ends.size() > 2 || !least || !most || *least == 0) {
    return refuse(values, "nnodes", "must be a number of nodes or a range", "--nnodes=2 or --nnodes=1:3");
  }
  if (*least > *most) {
    return refuse(values, "nnodes", "has a minimum above its maximum", fmt::format("--nnodes={}:{}", *most, *least));
  }
  return NodeRange{*least, *most};
}

Result<std::uint32_t> worker_count(const Settings& values, const HostFacts& host) {
  const std::string& text = values.text("nproc-per-node");
  if (text == "cpu") {
    return host.cpus;
  }
  if (text == "auto") {
    return host.gpus > 0 ? host.gpus : host.cpus;  // Intel's integrated graphics do not reduce the number
  }
  if (text == "gpu" || text == "xpu") {
    const std::uint32_t devices = text == "gpu" ? host.gpus : host.xpus;
    if (devices == 0) {
      return refuse(values, "nproc-per-node", "no such device is visible on this host",
                    "--nproc-per-node=auto, or checking CUDA_VISIBLE_DEVICES and /dev");
    }
    return devices;
  }
  const auto count = python_count(text);
  constexpr std::uint32_t kMost = 4096;
  if (!count || *count == 0 || *count > kMost) {
    return refuse(values, "nproc-per-node", "must be a number of workers, auto, cpu, gpu or xpu", "--nproc-per-node=4");
  }
  return *count;
}

/// Splits at commas, as torchrun does; ",," stands for a comma within a word.
std::vector<std::string> filter_words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ',' && i + 1 < text.size() && text[i + 1] == ',') {
      word += text[i++];
    } else if (text[i] == ',') {
      words.push_back(std::exchange(word, ""));
    } else {
      word += text[i];
    }
  }
  if (!text.empty()) {
    words.push_back(word);
  }
  return words;
}

Result<LogRequest> log_request(const Settings& values, const Environment& environment) {
  LogRequest logs;
  logs.folder = values.text("log-dir");
  for (const std::string_view name : {"redirects", "tee"}) {
    const std::optional<StreamChoice> choice = parse_streams(values.text(name));
    if (!choice) {
      return refuse(values, name, "must be 0, 1, 2 or 3, or a list by local rank",
                    fmt::format("--{}=3, or --{}=0:3,1:1 for a choice by local rank", name, name));
    }
    (name == "tee" ? logs.tee : logs.redirects) = *choice;
  }
  for (const std::string& rank : split(values.text("local-ranks-filter"), ',')) {
    const auto number = python_count(rank);
    if (!number) {
      return refuse(values, "local-ranks-filter", "must be a list of local ranks", "--local-ranks-filter=0,1");
    }
    logs.shown.insert(*number);
  }
  const std::string& prefix = values.text("log-line-prefix-template");
  const auto inherited = environment.get_non_empty("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
  logs.line_prefix = !prefix.empty() ? prefix : inherited.value_or(logs.line_prefix);
  logs.out_filters = filter_words(values.text("duplicate-stdout-filters"));
  logs.err_filters = filter_words(values.text("duplicate-stderr-filters"));
  return logs;
}

Result<std::vector<int>> signal_numbers(const Settings& values) {
  struct Named {
    std::string_view name;
    int number;
  };
  constexpr std::array kSignals{Named{"SIGTERM", SIGTERM}, Named{"SIGINT", SIGINT},   Named{"SIGHUP", SIGHUP},
                                Named{"SIGQUIT", SIGQUIT}, Named{"SIGUSR1", SIGUSR1}, Named{"SIGUSR2", SIGUSR2},
                                Named{"SIGALRM", SIGALRM}, Named{"SIGXCPU", SIGXCPU}, Named{"SIGCONT", SIGCONT}};
  std::vector<int> numbers;
  for (const std::string& word : split(values.text("signals-to-handle"), ',')) {
    const auto found = std::ranges::find(kSignals, trim(word), &Named::name);
    if (found == kSignals.end()) {
      return refuse(values, "signals-to-handle", fmt::format("{} is not a signal that can be handled", printable(word)),
                    "--signals-to-handle=SIGTERM,SIGINT,SIGHUP,SIGQUIT,SIGUSR1,SIGUSR2");
    }
    numbers.push_back(found->number);
  }
  return numbers;
}

/// For --run-path: records the script's exceptions as torch's @record does, which torchrun wraps around it.
constexpr std::string_view kRunPath = R"(import json, os, runpy, sys, time, traceback
del sys.argv[0]
if sys.path and not sys.path[0]:
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except Exception as error:
    if os.environ.get("TORCHELASTIC_ERROR_FILE"):
        with open(os.environ["TORCHELASTIC_ERROR_FILE"], "w") as file:
            json.dump({"message": {"message": f"{type(error).__name__}: {error}", "extraInfo": {
                "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}}}, file)
    raise
)";

Result<std::vector<std::string>> program_of(const RunOptions& options, const Environment& environment) {
  const Settings& values = options.values;
  if (options.program.empty() || options.program.front().empty()) {
    return fail("run", "", "no program is given", "rollcall run [OPTIONS] train.py [ARGUMENTS]");
  }
  if (values.on("no-python") && !values.on("run-path")) {
    if (values.on("module")) {
      return fail("--module", "", "contradicts --no-python", "giving only one of them");
    }
    return options.program;
  }
  std::vector<std::string> program{environment.get_non_empty("PYTHON_EXEC").value_or(""), "-u"};
  if (values.on("run-path")) {
    program.insert(program.end(), {"-c", std::string(kRunPath)});
  } else if (values.on("module")) {
    program.emplace_back("-m");
  }
  program.insert(program.end(), options.program.begin(), options.program.end());
  return program;
}

}  // namespace

Streams StreamChoice::of(std::uint32_t local_rank) const {
  if (by_rank_.empty()) {
    return all_;
  }
  const auto found = by_rank_.find(local_rank);
  return found == by_rank_.end() ? Streams() : found->second;
}

bool StreamChoice::any() const {
  const auto chosen = [](const auto& entry) { return entry.second.out || entry.second.err; };
  return all_.out || all_.err || std::ranges::any_of(by_rank_, chosen);
}

std::optional<StreamChoice> parse_streams(std::string_view text) {
  const auto one = [](std::string_view number) -> std::optional<Streams> {
    const auto value = parse_integer<std::uint32_t>(number);
    return number.size() == 1 && value && *value <= 3 ? std::optional(Streams{(*value & 1U) != 0, (*value & 2U) != 0})
                                                      : std::nullopt;
  };
  if (const auto all = one(text)) {
    return StreamChoice(*all);
  }
  std::map<std::uint32_t, Streams> by_rank;
  for (const std::string& entry : split(text, ',')) {
    const std::size_t colon = entry.find(':');
    const auto rank = parse_integer<std::uint32_t>(entry.substr(0, colon));
    const auto streams = colon == std::string::npos ? std::nullopt : one(std::string_view(entry).substr(colon + 1));
    if (!rank || !streams) {
      return std::nullopt;
    }
    by_rank.insert_or_assign(*rank, *streams);
  }
  return by_rank.empty() ? std::nullopt : std::optional(StreamChoice(std::move(by_rank)));
}

Result<LaunchRequest> launch_request(const RunOptions& options, const Environment& environment, const HostFacts& host) {
  const Settings& values = options.values;
  if (const std::string& specs = values.text("logs-specs"); !specs.empty() && specs != "default") {
    return refuse(values, "logs-specs", "is a Python plugin of torchrun, which rollcall cannot run",
                  "--log-dir, --redirects and --tee");
  }
  if (values.text("numa-binding") != "none") {
    return refuse(values, "numa-binding", "is not supported yet", "srun --cpu-bind");
  }
  ASSIGN_OR_RETURN(const NodeRange nodes, node_range(values));
  const Result<std::uint32_t> workers = worker_count(values, host);
  Result<MeetingRequest> meeting = meeting_request(values, nodes, host);
  Result<LogRequest> logs = log_request(values, environment);
  Result<std::vector<int>> signals = signal_numbers(values);
  Result<std::vector<std::string>> program = program_of(options, environment);
  for (const Error* const error :
       {workers ? nullptr : &workers.error(), meeting ? nullptr : &meeting.error(), logs ? nullptr : &logs.error(),
        signals ? nullptr : &signals.error(), program ? nullptr : &program.error()}) {
    if (error != nullptr) {
      return *error;
    }
  }
  const auto inherited = parse_integer<std::int64_t>(environment.get("TORCH_ELASTIC_SHUTDOWN_TIMEOUT").value_or(""));
  constexpr std::int64_t kMostSeconds = 1'000'000;  // the option's maximum
  const std::int64_t grace = values.is_default("shutdown-timeout") && inherited && *inherited >= 0
                                 ? std::min(*inherited, kMostSeconds)
                                 : values.integer("shutdown-timeout");
  LaunchRequest request;
  request.min_nodes = nodes.least;
  request.max_nodes = values.on("standalone") ? 1 : nodes.most;
  request.workers = *workers;
  request.meeting = *std::move(meeting);
  request.role = values.text("role");
  request.max_restarts = static_cast<std::uint32_t>(values.integer("max-restarts"));
  request.give_up_after = static_cast<std::uint32_t>(values.integer("give-up-after"));
  if (values.is_default("give-up-after")) {  // torchrun would restart that often
    request.give_up_after = std::max(request.give_up_after, request.max_restarts + 1);
  }
  request.shutdown_timeout = std::chrono::seconds(grace);
  request.standby = !values.on("no-standby");
  request.signals = *std::move(signals);
  request.program = *std::move(program);
  request.logs = *std::move(logs);
  request.virtual_local_rank = values.on("virtual-local-rank");
  return request;
}

}  // namespace rollcall::elastic

#include <fmt/format.h>
#include <torch/version.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/command_line/command_line.h"
#include "runtime/command_line/tool_main.h"
#include "runtime/job/own_environment.h"
#include "runtime/job/slurm_files.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "runtime/settings/settings.h"
#include "runtime/step/resolved_step.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/tools/bench_collectives/measure.h"
#include "trainer/torch.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/job_context.h"
#include "trainer/train/process.h"

namespace rollcall::bench_collectives {
namespace {

struct Options {
  bool json = false;
  std::vector<std::string> backends{};    ///< measured in turn, so that they meet the same noise
  std::string device{};                   ///< as rollcall-train's; "auto": the one whose tensors the backends carry
  std::vector<std::string> operations{};  ///< of operation_names()
  std::int64_t min_bytes = 0, max_bytes = 0, factor = 2;
  int iterations = 0, warm_up = 0;
  settings::LaunchSettings launch;
};

using settings::Kind;
using settings::Setting;

constexpr double kMostBytes = 1e12;

constexpr std::array kTable{
    Setting{"backend", Kind::List, "auto", "NAME,...",
            "Backends of rollcall-train. Several are measured in turn, and their speeds compared", "What"},
    Setting{"device", Kind::Text, "auto", "auto|cpu|cuda|NAME",
            "Device of the tensors, as for rollcall-train. auto: the one that the backends need", "What"},
    Setting{"operation", Kind::List, "all_reduce", "NAME,...",
            "Collectives to measure: all_reduce, reduce_scatter, all_gather, broadcast, all_to_all. all: each of "
            "them",
            "What"},
    Setting{"min-bytes", Kind::Integer, "1024", "BYTES", "Size of the smallest buffer", "Sizes", "", 0, kMostBytes},
    Setting{"max-bytes", Kind::Integer, "67108864", "BYTES", "Size of the largest buffer", "Sizes", "", 4, kMostBytes},
    Setting{"factor", Kind::Integer, "4", "N", "Each size is this many times the one before", "Sizes", "", 2, 1e6},
    Setting{"iterations", Kind::Integer, "20", "N", "Measurements of each size", "Running", "", 1, 1e6},
    Setting{"warm-up", Kind::Integer, "3", "N", "Runs of each size before the measurements", "Running", "", 0, 1e6},
};

constexpr std::array kFlags{
    command_line::Flag{"json", 0, "Print one JSON object per line instead of a table"},
};

constexpr std::string_view kUsage = R"(usage: rollcall-bench-collectives [OPTION...]

Measures collectives among all ranks of this Slurm step, as nccl-tests does, and checks every result.

  srun --ddp -n4 rollcall-bench-collectives                                  all-reduce, 1 KiB to 64 MiB
  srun --ddp -n4 rollcall-bench-collectives --backend=gloo,ucx --operation=all
  srun --ddp -N2 -n2 rollcall-bench-collectives --min-bytes=1048576 --max-bytes=1048576 --json

Bytes are those of the larger of a rank's input and output. Latency is the median over iterations of the slowest rank.
Algorithm bandwidth is bytes by latency; bus bandwidth is that times what a rank must send at least of them, 2 (N-1)/N for
all-reduce, 1 for broadcast, (N-1)/N for the others: a measure that does not depend on the number of ranks.

Exit codes: 0 success; 1 a result was wrong; 64 wrong option; 69 no connection, or a peer was lost.
)";

Result<void> check(const Options& options) {
  for (const std::string& name : options.operations) {
    if (!find_operation(name)) {
      return fail("--operation", name, "is not an operation", "rollcall-bench-collectives --help");
    }
  }
  if (options.min_bytes > options.max_bytes) {
    return fail("--min-bytes", std::to_string(options.min_bytes), "is more than --max-bytes", "lowering it");
  }
  return {};
}

/// A GPU backend and a CPU backend would be measured on different tensors.
Result<void> check_backends(const std::vector<std::string>& backends) {
  const auto of_gpus = std::ranges::count(backends, "nccl");
  if (of_gpus != 0 && of_gpus != std::ssize(backends)) {
    return fail("--backend", "nccl", "works on GPU tensors, but the other backends work on CPU tensors",
                "measuring it alone");
  }
  return {};
}

/// Parses `arguments`, which lack the program's name. Returns nothing for --help and --version. Errors: Usage; those of
/// the layers of launch settings.
Result<std::optional<Options>> read_options(const Environment& environment, const std::vector<std::string>& arguments) {
  settings::Settings own{settings::Table(kTable)};
  const settings::PluginProfile profile = job::profile_of_plugin(environment);
  ASSIGN_OR_RETURN(settings::Settings launch,
                   settings::load_settings(settings::launch_table(), environment,
                                           {.site = profile, .section = {}, .other_tables = {}}));
  const std::array targets{&own, &launch};
  const std::string version = fmt::format("{} (LibTorch {})", ROLLCALL_VERSION, TORCH_VERSION);
  const command_line::Tool tool{"rollcall-bench-collectives", version, kUsage, kFlags};
  ASSIGN_OR_RETURN(const auto parsed, command_line::read_tools_command_line(tool, targets, arguments, std::cout));
  if (!parsed) {
    return std::optional<Options>();
  }
  if (!parsed->positional.empty()) {
    return fail("command line", parsed->positional[0], "unexpected argument", "rollcall-bench-collectives --help");
  }
  Options options{.launch = std::move(launch)};
  options.json = parsed->has("json");
  options.backends = split(own.text("backend"), ',');
  options.device = own.text("device");
  options.operations = own.text("operation") == "all" ? operation_names() : split(own.text("operation"), ',');
  options.min_bytes = own.integer("min-bytes");
  options.max_bytes = own.integer("max-bytes");
  options.factor = own.integer("factor");
  options.iterations = static_cast<int>(own.integer("iterations"));
  options.warm_up = static_cast<int>(own.integer("warm-up"));
  RETURN_IF_ERROR(check(options));
  RETURN_IF_ERROR(check_backends(options.backends));
  return std::optional(std::move(options));
}

constexpr int kWrongResult = 1;

/// Returns the setting `device` of rollcall-train for the tensors of the backends.
std::string device_of_backends(const std::vector<std::string>& backends) {
  const std::string& first = backends.front();
  return first == "nccl" ? "cuda" : first == "auto" ? "auto" : "cpu";
}

Result<train::JobContext> join(const Options& options, const Environment& environment, train::FailureReport& report) {
  const config::ProcessGroupConfig config{.device = options.device == "auto" ? device_of_backends(options.backends)
                                                                             : options.device};
  return train::join_this_step(environment, options.launch, config, 1, report);
}

Result<std::vector<Candidate>> make_candidates(const Options& options, const train::JobContext& context) {
  std::vector<Candidate> candidates;
  for (const std::string& backend : options.backends) {
    const auto own =
        c10::make_intrusive<c10d::PrefixStore>("bench/" + std::to_string(candidates.size()), context.store);
    process_group::ProcessGroupOptions of_backend = context.group_options;
    of_backend.backend = backend;
    ASSIGN_OR_RETURN(auto made, process_group::make_process_group(own, context.rank, context.world_size, of_backend));
    candidates.push_back({made.backend, made.process_group, context.device.options()});
  }
  return candidates;
}

void print_head(const train::JobContext& context, std::size_t candidates) {
  fmt::print("# {} on {}; float32; medians of the slowest rank\n", counted(context.world_size, "rank"),
             counted(context.num_nodes, "node"));
  fmt::print("{:<15}{:<7}{:>12}{:>12}{:>10}{:>10}  {}{}\n", "operation", "with", "bytes", "us", "alg GB/s", "bus GB/s",
             "result", candidates > 1 ? "  against the first" : "");
}

void print_row(const Measurement& row, double ratio, bool compares) {
  fmt::print("{:<15}{:<7}{:>12}{:>12.1f}{:>10.2f}{:>10.2f}  {:<6}{}\n", row.operation, row.backend, row.bytes,
             row.seconds * 1e6, row.algorithm / 1e9, row.bus / 1e9, row.correct ? "right" : "WRONG",
             compares ? fmt::format("  {:.2f}x", ratio) : "");
}

void print_json(const Measurement& row, double ratio, const train::JobContext& context) {
  const nlohmann::ordered_json object{{"operation", row.operation},
                                      {"backend", row.backend},
                                      {"ranks", context.world_size},
                                      {"nodes", context.num_nodes},
                                      {"bytes", row.bytes},
                                      {"seconds", row.seconds},
                                      {"algorithm_bytes_per_second", row.algorithm},
                                      {"bus_bytes_per_second", row.bus},
                                      {"speed_against_first", ratio},
                                      {"correct", row.correct}};
  fmt::print("{}\n", object.dump());
}

/// Measures and prints everything; returns whether all results were right.
Result<bool> measure_all(const Options& options, const train::JobContext& context) {
  ASSIGN_OR_RETURN(const std::vector<Candidate> candidates, make_candidates(options, context));
  if (context.rank == 0 && !options.json) {
    print_head(context, candidates.size());
  }
  bool all_right = true;
  for (const std::string& operation : options.operations) {
    for (std::int64_t bytes = options.min_bytes; bytes <= options.max_bytes;
         bytes = std::max<std::int64_t>(1, bytes) * options.factor) {
      ASSIGN_OR_RETURN(
          const std::vector<Measurement> rows,
          measure(candidates, operation, bytes, {.warm_up = options.warm_up, .iterations = options.iterations}));
      for (const Measurement& row : rows) {
        all_right = all_right && row.correct;
        const double ratio = rows.front().seconds / row.seconds;
        if (context.rank == 0) {
          options.json ? print_json(row, ratio, context) : print_row(row, ratio, rows.size() > 1);
        }
      }
      std::fflush(stdout);
    }
  }
  return all_right;
}

int measure_in_world(const Options& options, const Environment& environment) {
  train::FailureReport report(0, 0, this_host_name());
  Result<train::JobContext> context = join(options, environment, report);
  if (!context) {
    return report.report_on_rank_zero(context.error());
  }
  const bool alone = context->world_size == 1;
  if (alone && context->device.plugin() == nullptr) {
    return report.report_on_rank_zero(fail("rollcall-bench-collectives", "1 rank", "at least 2 ranks are needed",
                                           "srun --ddp -n2 rollcall-bench-collectives"));
  }
  if (alone) {  // tests whether a device's backend, its driver and LibTorch work together
    context->store = c10::make_intrusive<c10d::HashStore>();
    context->group_options.device = context->device.plugin();
  }
  const Result<bool> right = measure_all(options, *context);
  if (!right) {
    const bool reports =
        context->rank == 0 || right.error().kind == ErrorKind::Mismatch;  // a mismatch is found by one rank
    return reports ? report.report_on_rank_zero(right.error()) : to_int(right.error().exit_code());
  }
  if (!alone) {
    train::let_others_leave_first(*context);
  }
  return *right ? to_int(ExitCode::Success) : kWrongResult;
}

/// Runs `rollcall-bench-collectives` and returns its exit code. Rank 0 prints.
int run(const Environment& environment, const std::vector<std::string>& arguments) {
  const Result<std::optional<Options>> options = read_options(environment, arguments);
  if (!options) {
    fmt::print(stderr, "{}\n", options.error().message());
    return to_int(options.error().exit_code());
  }
  return *options ? measure_in_world(**options, job::with_slurmctld_facts(environment)) : to_int(ExitCode::Success);
}

}  // namespace
}  // namespace rollcall::bench_collectives

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return rollcall::command_line::tool_main(
      "rollcall-bench-collectives", "lowering --max-bytes", std::cout, std::cerr, [&] {
        const rollcall::Environment own = rollcall::job::own_environment(rollcall::Environment::of_this_process());
        return rollcall::bench_collectives::run(rollcall::with_home_and_user(own), arguments);
      });
}

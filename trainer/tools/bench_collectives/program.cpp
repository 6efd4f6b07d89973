#include "trainer/tools/bench_collectives/program.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "runtime/base/this_process.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/step/resolved_step.h"
#include "trainer/config/trainer_settings.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/tools/bench_collectives/measure.h"
#include "trainer/tools/bench_collectives/options.h"
#include "trainer/train/departure.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/process.h"
#include "trainer/train/world.h"

namespace rollcall::bench_collectives {
namespace {

constexpr int kWrongResult = 1;

Result<train::World> join(const Options& options, const Environment& environment, train::FailureReport& report) {
  Result<std::unique_ptr<launchers::PmixClient>> pmix = rendezvous::pmix_for(environment, options.launch);
  if (!pmix) {
    return pmix.error();
  }
  const Result<step::ResolvedStep> step = step::resolve_this_step(environment, options.launch, pmix->get());
  if (!step) {
    return step.error();
  }
  const Environment patched = resolve::apply(step->patch, environment);
  train::prepare_process(1);
  metrics::StartupTrace trace(metrics::now());
  return train::join_world(*step, patched, options.launch, settings::Settings(config::trainer_table()),
                           *std::move(pmix), report, trace);
}

Result<std::vector<Contestant>> make_contestants(const Options& options, const train::World& world) {
  std::vector<Contestant> contestants;
  for (const std::string& backend : options.backends) {
    const auto own = c10::make_intrusive<c10d::PrefixStore>("bench/" + std::to_string(contestants.size()), world.store);
    Result<process_group::NamedProcessGroup> made =
        process_group::make_process_group(own, world.rank, world.world_size, {.backend = backend});
    if (!made) {
      return made.error();
    }
    contestants.push_back({made->backend, made->process_group});
  }
  return contestants;
}

void print_head(const train::World& world, std::size_t contestants) {
  fmt::print("# {} ranks on {} nodes; float32; medians of the slowest rank\n", world.world_size, world.num_nodes);
  fmt::print("{:<15}{:<7}{:>12}{:>12}{:>10}{:>10}  {}{}\n", "operation", "with", "bytes", "us", "alg GB/s", "bus GB/s",
             "result", contestants > 1 ? "  against the first" : "");
}

void print_row(const Measurement& row, double ratio, bool compares) {
  fmt::print("{:<15}{:<7}{:>12}{:>12.1f}{:>10.2f}{:>10.2f}  {:<6}{}\n", row.operation, row.backend, row.bytes,
             row.seconds * 1e6, row.algorithm / 1e9, row.bus / 1e9, row.correct ? "right" : "WRONG",
             compares ? fmt::format("  {:.2f}x", ratio) : "");
}

void print_json(const Measurement& row, double ratio, const train::World& world) {
  const nlohmann::ordered_json object{{"operation", row.operation},
                                      {"backend", row.backend},
                                      {"ranks", world.world_size},
                                      {"nodes", world.num_nodes},
                                      {"bytes", row.bytes},
                                      {"seconds", row.seconds},
                                      {"algorithm_bytes_per_second", row.algorithm},
                                      {"bus_bytes_per_second", row.bus},
                                      {"speed_against_first", ratio},
                                      {"correct", row.correct}};
  fmt::print("{}\n", object.dump());
}

/// Measures and prints everything; whether all results were right.
Result<bool> measure_all(const Options& options, const train::World& world) {
  const Result<std::vector<Contestant>> contestants = make_contestants(options, world);
  if (!contestants) {
    return contestants.error();
  }
  if (world.rank == 0 && !options.json) {
    print_head(world, contestants->size());
  }
  bool all_right = true;
  for (const std::string& operation : options.operations) {
    for (std::int64_t bytes = options.min_bytes; bytes <= options.max_bytes;
         bytes = std::max<std::int64_t>(1, bytes) * options.factor) {
      const Result<std::vector<Measurement>> rows =
          measure(*contestants, operation, bytes, {.warm_up = options.warm_up, .iterations = options.iterations});
      if (!rows) {
        return rows.error();
      }
      for (const Measurement& row : *rows) {
        all_right = all_right && row.correct;
        const double ratio = rows->front().seconds / row.seconds;
        if (world.rank == 0) {
          options.json ? print_json(row, ratio, world) : print_row(row, ratio, rows->size() > 1);
        }
      }
      std::fflush(stdout);
    }
  }
  return all_right;
}

int measure_in_world(const Options& options, const Environment& environment) {
  train::FailureReport report(0, 0, 1, this_host_name());
  Result<train::World> world = join(options, environment, report);
  if (!world) {
    return report.common(world.error());
  }
  if (world->world_size == 1) {
    return report.common(fail("rollcall-bench-collectives", "1 rank", "has nobody to talk to",
                              "srun --ddp -n2 rollcall-bench-collectives"));
  }
  const Result<bool> right = measure_all(options, *world);
  if (!right) {
    return world->rank == 0 ? report.common(right.error()) : to_int(right.error().exit_code);
  }
  train::let_others_leave_first(*world);
  return *right ? to_int(ExitCode::Success) : kWrongResult;
}

}  // namespace

int run(const Environment& environment, const std::vector<std::string>& arguments) {
  const Result<Options> options = read_options(environment, arguments);
  if (!options) {
    fmt::print(stderr, "{}\n", options.error().message());
    return to_int(options.error().exit_code);
  }
  if (options->request == Request::Help) {
    fmt::print("{}", help_text());
    return to_int(ExitCode::Success);
  }
  if (options->request == Request::Version) {
    fmt::print("rollcall-bench-collectives {} (LibTorch {})\n", ROLLCALL_VERSION, TORCH_VERSION);
    return to_int(ExitCode::Success);
  }
  return measure_in_world(*options, environment);
}

}  // namespace rollcall::bench_collectives

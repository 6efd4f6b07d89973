#include "trainer/train/run.h"

#include <fmt/format.h>
#include <torch/torch.h>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/settings/markdown.h"
#include "runtime/step/resolved_step.h"
#include "trainer/config/options.h"
#include "trainer/config/trainer_settings.h"
#include "trainer/distributed/ddp/sync_batch_norm.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/train/benchmark_data.h"
#include "trainer/train/checkpoints.h"
#include "trainer/train/departure.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/introduce.h"
#include "trainer/train/keep_step_size.h"
#include "trainer/train/loop.h"
#include "trainer/train/observer.h"
#include "trainer/train/prepare_folders.h"
#include "trainer/train/process.h"
#include "trainer/train/prove_world.h"
#include "trainer/train/replica_options.h"
#include "trainer/train/run_folders.h"
#include "trainer/train/stop_signal.h"
#include "trainer/train/task.h"
#include "trainer/train/watch_limit.h"
#include "trainer/train/world.h"

namespace rollcall::train {
namespace {

/// A rank as far as the environment alone tells; decides who prints before the ranks know each other.
std::uint32_t probable(const Environment& environment, std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    if (const auto number = parse_integer<std::uint32_t>(environment.get(name).value_or(""))) {
      return *number;
    }
  }
  return 0;
}

int print_only(const config::Options& options) {
  switch (options.request) {
    case config::Request::Help:
      std::fputs(config::help_text().c_str(), stdout);
      break;
    case config::Request::Version:
      fmt::print("rollcall-train {} (LibTorch {})\n", ROLLCALL_VERSION, TORCH_VERSION);
      break;
    case config::Request::PrintSettingsMarkdown:
      std::fputs(settings::settings_markdown("rollcall-train", config::trainer_table()).c_str(), stdout);
      break;
    default:
      std::fputs(settings::print_config(options.trainer, options.json).c_str(), stdout);
      std::fputs(settings::print_config(options.launch, options.json).c_str(), stdout);
  }
  return to_int(ExitCode::Success);
}

/// One rank's answer to "did your part of the set-up work?" is everybody's.
template <typename T>
std::optional<int> settle(const Result<T>& mine, const World& world, FailureReport& report) {
  const Result<void> outcome = mine ? Result<void>() : Result<void>(mine.error());
  const Result<process_group::Agreement> agreement = process_group::agree(world.process_group, outcome);
  if (!agreement) {
    return report.lost_peer(agreement.error());
  }
  if (!agreement->failure) {
    return std::nullopt;
  }
  return agreement->prints ? report.agreed(*agreement->failure) : to_int(agreement->failure->exit_code);
}

/// A few images like the real ones, for the pass that settles the order of the buckets. Each rank needs more than one
/// value per channel in every BatchNorm, so two images where they shrink to a single pixel.
Result<void> warm_up(parallel::Replica& replica, Task& task, const settings::Settings& settings) {
  constexpr std::int64_t kSmallest = 32;
  const std::int64_t size = std::min(kSmallest, settings.integer("image-size"));
  const at::Tensor images = torch::zeros({2, 3, size, size}).contiguous(task.memory_format);
  const at::Tensor labels = torch::zeros({2}, at::kLong);
  task.model->train();
  return replica.warm_up([&] { return torch::nn::functional::cross_entropy(task.model->forward(images), labels); });
}

Result<std::unique_ptr<parallel::Replica>> make_replica(const settings::Settings& settings, Task& task,
                                                        const World& world) {
  Result<parallel::ReplicaOptions> options = replica_options(settings);
  if (!options) {
    return options.error();
  }
  if (settings.on("sync-bn")) {
    parallel::synchronise_batch_norms(*task.model, world.process_group);
  }
  options->groups = world.group_options;
  return parallel::make_replica(task.model.ptr(), *options, {world.process_group, world.store});
}

struct Session {
  const config::Options& options;
  const Environment& environment;
  const std::vector<std::string>& arguments;
  FailureReport& report;
  World& world;
};

int end_of_run(const Outcome& outcome, Observer& observer, const checkpoint::Progress& progress,
               const Session& session) {
  switch (outcome.ending) {
    case Ending::Finished:
      observer.finished(progress, "finished");
      return to_int(ExitCode::Success);
    case Ending::Interrupted:
      observer.finished(progress, "interrupted, a checkpoint was saved: submit again to go on");
      return to_int(ExitCode::Interrupted);
    case Ending::Failed:
      session.world.group_options.first_failure->tell(outcome.failure->error.message());
      return outcome.failure->lost_peer ? session.report.lost_peer(outcome.failure->error)
                                        : session.report.own(outcome.failure->error);
  }
  return to_int(ExitCode::Internal);
}

int train(Session session) {
  World& world = session.world;
  settings::Settings settings = session.options.trainer;
  Result<RunFolders> folders = choose_run_folders(settings, session.environment);
  if (const auto code = settle(folders, world, session.report)) {
    return *code;
  }
  const Result<std::string> prepared = prepare_folders(settings, *folders, world);
  if (const auto code = settle(prepared, world, session.report)) {
    return *code;
  }
  if (const auto code = settle(keep_step_size(settings, *folders, world), world, session.report)) {
    return *code;
  }
  Result<Task> task = make_task(settings, world, session.environment);
  if (const auto code = settle(task, world, session.report)) {
    return *code;
  }
  const Result<std::unique_ptr<parallel::Replica>> replica = make_replica(settings, *task, world);
  if (const auto code = settle(replica, world, session.report)) {
    return *code;
  }
  if (const auto code = settle(add_optimizer(*task, **replica, settings, world), world, session.report)) {
    return *code;
  }
  const Result<process_group::Group> saving_group = make_saving_group(world);
  if (const auto code = settle(saving_group, world, session.report)) {
    return *code;
  }
  Checkpoints checkpoints(settings, *folders, *task, **replica, world, *saving_group, session.arguments);
  checkpoint::Progress progress = first_progress(settings, world);
  std::vector<std::string> warnings = folders->warnings;
  warnings.insert(warnings.end(), task->data.warnings.begin(), task->data.warnings.end());
  const Result<std::string> resumed = checkpoints.load(progress, warnings);
  if (const auto code = settle(resumed, world, session.report)) {
    return *code;
  }
  if (const auto code = settle(checkpoints.confirm_same_step(progress), world, session.report)) {
    return *code;
  }
  if (const auto code = settle(warm_up(**replica, *task, settings), world, session.report)) {
    return *code;
  }
  Result<Observer> observer = Observer::open(settings, folders->run, world.rank, task->epochs);
  if (const auto code = settle(observer, world, session.report)) {
    return *code;
  }
  if (const auto warning =
          checkpoint_purge_warning(session.options.launch, session.environment, folders->checkpoints)) {
    warnings.push_back(*warning);
  }
  TimeLimit limit = watch_limit(settings, session.environment, world.rank, warnings);
  introduce(*observer, settings, session.environment, world, *task, {*prepared, *resumed}, warnings);
  if (progress.global_step > 0) {
    observer->resumed(progress);
  }
  training_begins();
  Loop loop(*task, world, **replica, checkpoints, *observer, progress, std::move(limit));
  return end_of_run(loop.run(), *observer, progress, session);
}

int join_and_work(const config::Options& options, const Environment& environment,
                  const std::vector<std::string>& arguments, FailureReport& report, metrics::StartupTrace& trace) {
  Result<std::unique_ptr<launchers::PmixClient>> pmix = rendezvous::pmix_for(environment, options.launch);
  if (!pmix) {
    return report.common(pmix.error());
  }
  const Result<step::ResolvedStep> step = step::resolve_this_step(environment, options.launch, pmix->get());
  if (!step) {
    return report.of_this_node(step.error());
  }
  report = FailureReport(step->facts.rank, step->facts.local_rank, step->facts.world_size,
                         step->facts.this_host.empty() ? host_name() : step->facts.this_host);
  const Environment patched = resolve::apply(step->patch, environment);
  prepare_process(parse_integer<int>(patched.get("OMP_NUM_THREADS").value_or("")).value_or(0));
  trace.mark("bootstrap");
  int code = 0;
  {
    Result<World> world = join_world(*step, patched, options.launch, options.trainer, *std::move(pmix), report, trace);
    if (!world) {
      return world.error().exit_code == ExitCode::Mismatch ? report.common(world.error()) : report.own(world.error());
    }
    const bool dry_run = options.request == config::Request::DryRun;
    const Result<void> proven = dry_run || options.trace_startup ? prove_world(*world, options, trace) : Result<void>();
    if (!proven) {
      code = report.lost_peer(proven.error());
    } else if (!dry_run) {
      code = train({options, patched, arguments, report, *world});
    }
    if (code == to_int(ExitCode::Interrupted)) {
      leave_interrupted(*world);
    } else if (code == to_int(ExitCode::Success)) {
      let_others_leave_first(*world);
    }
  }
  // The process group is gone by now: ranks that wait in a collective notice, and ask the store whether the cause was
  // told.
  if (code != 0 && code != to_int(ExitCode::Interrupted)) {
    report.linger();
  }
  return code;
}

}  // namespace

int run(const Environment& environment, const std::vector<std::string>& arguments,
        metrics::StartupTrace trace) noexcept {
  FailureReport report(
      probable(environment, {"PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK"}),
      probable(environment, {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"}), 1,
      host_name());
  try {
    catch_stop_signals();
    const Result<config::Options> options = config::read_options(environment, arguments);
    if (!options) {
      return report.common(options.error());
    }
    trace.mark("settings");
    if (options->request == config::Request::BenchmarkData) {
      const Result<void> done = benchmark_data(options->trainer, environment, options->json);
      return done ? to_int(ExitCode::Success) : report.own(done.error());
    }
    if (options->request != config::Request::Train && options->request != config::Request::DryRun) {
      return print_only(*options);
    }
    return join_and_work(*options, environment, arguments, report, trace);
  } catch (const std::exception& error) {
    if (const std::optional<Error> memory = process_group::out_of_memory(error)) {
      return report.own(*memory);
    }
    return report.own(fail("rollcall-train", "", error.what(), "reporting this: it is a bug", ExitCode::Internal));
  }
}

}  // namespace rollcall::train

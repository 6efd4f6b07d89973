#include "trainer/train/run.h"

#include <fmt/format.h>
#include <unistd.h>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/deadlines.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/devices.h"
#include "runtime/elastic/worker_link.h"
#include "runtime/job/marker.h"
#include "runtime/job/own_environment.h"
#include "runtime/launchers/likely_rank.h"
#include "runtime/launchers/slurm.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/step/gather.h"
#include "runtime/step/resolved_step.h"
#include "trainer/config/options.h"
#include "trainer/config/train_config.h"
#include "trainer/device/library_variables.h"
#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/report/page.h"
#include "trainer/torch.h"
#include "trainer/train/data/data_pipeline.h"
#include "trainer/train/dry_run.h"
#include "trainer/train/failure_report.h"
#include "trainer/train/inference/evaluate.h"
#include "trainer/train/job_context.h"
#include "trainer/train/print_only.h"
#include "trainer/train/process.h"
#include "trainer/train/session.h"
#include "trainer/train/step/training.h"
#include "trainer/train/stop_request.h"

namespace rollcall::train {
namespace {

/// Returns a name that the tasks of this run on this node share: that of Slurm's step, or of the process that a
/// launcher starts them from.
std::string run_here(const Environment& environment) {
  const Result<job::JobFacts> facts = launchers::facts_from_slurm(environment);
  return facts ? job::step_name(*facts) : fmt::format("child of {}", ::getppid());
}

Error of_exception(const std::exception& error) {
  return process_group::out_of_memory(error).value_or(
      fail("rollcall-train", "", error.what(), "reporting this bug", ErrorKind::Internal));
}

SessionEnd train_in(JobContext& context, const SessionInput& input, SessionStart memory, FailureReport& report,
                    metrics::StartupTrace& trace) {
  const bool trains = input.options.request == config::Request::Train;
  const bool is_dry_run = input.options.request == config::Request::DryRun;
  if (const Result<void> current = context.device.make_current();
      !current) {  // the device may have been set up by another thread
    return {.exit_code = report.report_own(current.error())};
  }
  Result<void> proven =
      is_dry_run || input.options.trace_startup ? first_collective(context, input.options, trace) : Result<void>();
  if (proven && !trains) {
    proven = is_dry_run ? dry_run(input, context) : find_learning_rate(input, context);
  }
  SessionEnd end;
  if (!proven) {
    end.exit_code = report.report_own(proven.error());
  } else if (trains) {
    if (memory.kept) {
      memory.kept->recovery.joined = seconds_now() - memory.kept->recovery.noticed;
    }
    try {
      if (input.options.trainer.text("evaluate").empty()) {
        end = run_session(input, report, context, std::move(memory));
      } else if (const Result<void> evaluated = evaluate(input, context); !evaluated) {
        end.exit_code = report.report_own(evaluated.error());
      }
    } catch (const std::exception& error) {  // reported before the world is destroyed, which other ranks notice
      end.exit_code = report.report_own(of_exception(error));
    }
  }
  if (end.exit_code == to_int(ExitCode::Interrupted)) {
    leave_interrupted(context);
  } else if (end.lost) {
    process_group::leave_behind(std::move(context.process_group));
  } else if (end.exit_code == to_int(ExitCode::Success)) {
    let_others_leave_first(context);
  }
  return end;
}

/// Runs join_world() in a thread that is abandoned when the agent reports that this world, too, is over: the other
/// ranks may wait for a rank that was lost. Returns nothing then, and drops what the thread creates.
std::optional<Result<JobContext>> join_unless_over(const step::ResolvedStep& step, const Environment& patched,
                                                   const config::Options& options, FailureReport& report,
                                                   elastic::AgentLink& agent) {
  struct Join {
    step::ResolvedStep step;
    Environment environment;
    settings::LaunchSettings launch;
    config::ProcessGroupConfig config;
    FailureReport report;
    process_group::Interrupted lost;
    process_group::Interrupted over;
    std::promise<Result<JobContext>> context;
  };
  constexpr std::chrono::milliseconds kGlance{2};
  const auto join = std::make_shared<Join>(Join{step,
                                                patched,
                                                options.launch,
                                                config::make_process_group_config(options.trainer),
                                                report,
                                                agent.loss_in_generation(),
                                                agent.end_of_generation(),
                                                {}});
  std::future<Result<JobContext>> context = join->context.get_future();
  std::thread([join] {
    metrics::StartupTrace untold(metrics::now());
    try {
      join->context.set_value(join_world(join->step, join->environment, join->launch, join->config, nullptr,
                                         join->report, untold, join->lost, join->over));
    } catch (...) {
      join->context.set_exception(std::current_exception());
    }
  }).detach();
  while (context.wait_for(kGlance) != std::future_status::ready) {
    if (agent.hold_requested()) {
      return std::nullopt;
    }
  }
  report = join->report;
  return context.get();
}

/// Returns the number of compute threads. An exact training depends on it, so there the setting takes precedence over
/// the environment.
int compute_threads(const settings::Settings& trainer, const Environment& environment) {
  const bool exact = trainer.integer("elastic-exact") > 0;
  return exact ? static_cast<int>(trainer.integer("elastic-exact-threads"))
               : parse_integer<int>(environment.get("OMP_NUM_THREADS").value_or("")).value_or(0);
}

/// Trains in one world. `memory`: state of this process from before.
SessionEnd work_in_world(const config::Options& options, const Environment& environment,
                         const std::vector<std::string>& arguments, elastic::AgentLink* agent, SessionStart memory,
                         FailureReport& report, metrics::StartupTrace& trace) {
  Result<std::unique_ptr<launchers::PmixClient>> pmix = rendezvous::pmix_for(environment, options.launch);
  if (!pmix) {
    return {.exit_code = report.report_on_rank_zero(pmix.error())};
  }
  const Result<step::ResolvedStep> step = step::resolve_this_step(environment, options.launch, pmix->get());
  if (!step) {
    const bool rank_0_agrees = step.error().kind == ErrorKind::Mismatch && step::rank_0_agrees(environment);
    return {.exit_code = report.report_before_connecting(step.error(), run_here(environment), rank_0_agrees)};
  }
  report = FailureReport(step->facts.rank, step->facts.local_rank,
                         step->facts.this_host.empty() ? this_host_name() : step->facts.this_host);
  warn_of_single_process(step->facts, environment);
  const Environment patched = resolve::apply(step->patch, environment);
  prepare_process(compute_threads(options.trainer, patched));
  trace.mark("bootstrap");
  std::optional<Result<JobContext>> context;
  if (memory.kept) {
    agent->announce_survival();
    context = join_unless_over(*step, patched, options, report, *agent);
  } else {
    context =
        join_world(*step, patched, options.launch, config::make_process_group_config(options.trainer), *std::move(pmix),
                   report, trace, agent != nullptr ? agent->loss_in_generation() : process_group::Interrupted());
  }
  const bool lost_again =
      memory.kept && (!context || (!*context && process_group::others_may_be_missing(context->error())));
  if (lost_again) {
    const double noticed = memory.kept->recovery.noticed;
    return {.noticed = noticed,
            .lost = fail("world", "", "a rank was lost while the others connected", "", ErrorKind::PeerLost),
            .next_start = std::move(memory)};
  }
  if (!*context) {
    const Error& error = context->error();
    const bool on_all_ranks = error.kind == ErrorKind::Mismatch && !error.of_this_node;
    return {.exit_code = on_all_ranks ? report.report_on_rank_zero(error) : report.report_own(error)};
  }
  return train_in(**context, {options, *step, patched, arguments, agent}, std::move(memory), report, trace);
}
Environment with(Environment environment, const elastic::Variables& variables) {
  for (const auto& [name, value] : variables) {
    environment.set(name, value);
  }
  return environment;
}

/// Returns the variables of the next world after `lost` ended the current one; nothing if the agent knows of no end,
/// and the process must end too.
std::optional<elastic::Variables> next_world(elastic::AgentLink& agent, SessionEnd& end, double noticed) {
  const double released = seconds_now() - noticed;
  if (!agent.await_hold(deadline::kAgentsNoticeFailure)) {
    agent.report_stall(end.lost->reason);
  }
  if (!agent.await_hold(deadline::kAgentsEndGeneration)) {
    return std::nullopt;
  }
  if (end.next_start.kept &&
      end.next_start.kept->recovery.cause.empty()) {  // otherwise this belongs to a change that began earlier
    end.next_start.kept->recovery = {
        .cause = end.lost->reason, .noticed = noticed, .released = released, .hold = seconds_now() - noticed};
  }
  return agent.next_generation();
}

/// Returns the link to the agent of a training that continues when its world changes; null for any other training.
Result<std::shared_ptr<elastic::AgentLink>> agent_of(const config::Options& options, const Environment& environment) {
  if (!options.trainer.on("elastic")) {
    return std::shared_ptr<elastic::AgentLink>();
  }
  if (options.trainer.text("backend") == "mpi") {
    return fail("--elastic", "on", "MPI cannot continue after a rank is lost", "--backend=gloo, or --backend=ucx",
                ErrorKind::Usage);
  }
  std::shared_ptr<elastic::AgentLink> agent = elastic::AgentLink::of(environment);
  if (!agent) {
    return fail("--elastic", "on", "this process was not started by an agent of `rollcall run`",
                "rollcall run --max-restarts=N ... rollcall-train --elastic", ErrorKind::Usage);
  }
  return agent;
}

/// Trains in one world after the other until the training ends.
SessionEnd work(const config::Options& options, Environment environment, const std::vector<std::string>& arguments,
                FailureReport& report, metrics::StartupTrace& trace) {
  const Result<std::shared_ptr<elastic::AgentLink>> agent = agent_of(options, environment);
  if (!agent) {
    return {.exit_code = report.report_on_rank_zero(agent.error())};
  }
  SessionStart memory;
  if (*agent && environment.get(env::kStandby)) {
    prepare_process(compute_threads(options.trainer, environment));
    const auto config = config::make_train_config(options.trainer, environment);
    const device::DeviceRequest device_asked{.asked = options.trainer.text("device"),
                                             .gpus = elastic::count_nvidia_gpus(environment)};
    Result<Prepared> rehearsed = !config                        ? config.error()
                                 : device::is_cpu(device_asked) ? prepare_standby(*config)
                                                                : Result<Prepared>(Prepared());
    if (!rehearsed) {
      return {.exit_code = to_int(rehearsed.error().exit_code())};  // the workers report it
    }
    memory.ready = *std::move(rehearsed);
    const std::optional<elastic::Variables> variables = (*agent)->first_generation();
    if (!variables) {
      return {};
    }
    environment = with(std::move(environment), *variables);
  }
  while (true) {
    SessionEnd end = work_in_world(options, environment, arguments, agent->get(), std::move(memory), report, trace);
    if (!end.lost) {
      return end;
    }
    report.end_recovery();
    training_pauses();
    const std::optional<elastic::Variables> variables = next_world(**agent, end, end.noticed);
    if (!variables) {
      end.exit_code = report.report_own(*end.lost);
      return end;
    }
    environment = with(std::move(environment), *variables);
    memory = std::move(end.next_start);
  }
}

int join_and_work(const config::Options& options, const Environment& environment,
                  const std::vector<std::string>& arguments, FailureReport& report, metrics::StartupTrace& trace) {
  device::set_library_variables(config::make_process_group_config(options.trainer).arithmetic.deterministic);
  const SessionEnd end = work(options, environment, arguments, report, trace);
  // The process group is destroyed by now: ranks that wait in a collective notice it and ask the store whether the
  // cause was reported.
  if (end.exit_code != 0 && end.exit_code != to_int(ExitCode::Interrupted)) {
    report.shutdown_grace();
  }
  if (!end.reported.empty()) {
    constexpr double kMostSeconds = 20;  // of the job's time, for records of many million steps
    const std::string summary = report::report_of_run(end.reported, kMostSeconds);
    if (options.trainer.text("progress") != "none") {
      std::fputs(summary.c_str(), stdout);
    }
  }
  if (process_group::devices_are_being_aborted()) {
    std::fflush(nullptr);
    std::_Exit(end.exit_code);
  }
  return end.exit_code;
}

}  // namespace

int run(const Environment& environment, const std::vector<std::string>& arguments,
        metrics::StartupTrace trace) noexcept {
  const std::optional<std::uint32_t> launched = launchers::launched_rank(environment);
  const bool prints = launched.value_or(0) == 0;
  FailureReport report(launchers::likely_rank(environment), launchers::likely_local_rank(environment),
                       this_host_name());
  try {
    catch_stop_signals();
    raise_open_files_limit();  // rank 0 is connected to all ranks, and every rank to those of its collectives
    const Result<config::Options> options = config::read_options(environment, arguments);
    if (!options) {
      return !launched && !environment.get(env::kRank) ? report.report_on_rank_zero(options.error())
                                                       : report.report_options(options.error(), run_here(environment));
    }
    trace.mark("settings");
    if (options->request == config::Request::BenchmarkData) {
      const Result<void> done = benchmark_data(options->trainer, environment, options->json, prints);
      return done ? to_int(ExitCode::Success) : report.report_own(done.error());
    }
    if (options->request != config::Request::Train && options->request != config::Request::DryRun &&
        options->request != config::Request::FindLr) {
      if (prints || options->request != config::Request::PrintConfig) {
        print_only(*options);
      }
      return to_int(ExitCode::Success);
    }
    return join_and_work(*options, job::with_slurmctld_facts(environment), arguments, report, trace);
  } catch (const std::exception& error) {
    return report.report_own(of_exception(error));
  }
}

}  // namespace rollcall::train

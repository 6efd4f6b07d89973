#include "trainer/train/job_context.h"

#include <fmt/format.h>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/exit_codes.h"
#include "runtime/elastic/devices.h"
#include "runtime/rendezvous/meet.h"
#include "trainer/device/library_variables.h"
#include "trainer/distributed/process_group/collectives.h"
#include "trainer/distributed/process_group/factory.h"
#include "trainer/distributed/process_group/store.h"
#include "trainer/libtorch_version.h"
#include "trainer/metrics/nvml.h"
#include "trainer/train/devices_of_ranks.h"
#include "trainer/train/process.h"

namespace rollcall::train {
namespace {

JobContext context_of(const job::JobFacts& facts) {
  JobContext context;
  context.rank = facts.rank;
  context.local_rank = facts.local_rank;
  context.world_size = facts.world_size;
  context.num_nodes = facts.num_nodes;
  context.host = facts.this_host.empty() ? this_host_name() : facts.this_host;
  context.rendezvous = "none";
  context.backend = "none";
  return context;
}

/// Adds the driver's reason, if known, to the error of a GPU that is missing.
Result<void> with_gpu_trouble(const Result<void>& taken) {
  if (taken || taken.error().kind != ErrorKind::Unavailable) {
    return taken;
  }
  Error error = taken.error();
  error.reason += metrics::gpu_trouble();
  return error;
}

/// Chooses the device of this rank and stores it in `context`; the ranks agree on the error later.
Result<void> take_device(JobContext& context, const job::JobFacts& facts, const Environment& environment,
                         const config::ProcessGroupConfig& config) {
  const device::DeviceRequest place{.asked = config.device,
                                    .gpus = elastic::count_nvidia_gpus(environment),
                                    .local_rank = facts.local_rank,
                                    .local_world_size = facts.local_world_size};
  const Result<device::Device> chosen = device::choose_device(place);
  if (chosen) {
    context.device = *chosen;
    if (context.device.type() == at::kCUDA) {
      RETURN_IF_ERROR(
          device::check_library_variables(environment, config.arithmetic.tf32, ROLLCALL_LIBTORCH_2_11 == 1));
    }
    context.device.use(config.arithmetic);
    const device::Plugin* const plugin = context.device.plugin();
    const Result<std::uint32_t> visible = plugin == nullptr ? Result<std::uint32_t>(0U) : plugin->count();
    for (const std::string& warning :
         {device::idle_gpus_warning(place, context.device), device::missing_kernels_warning(context.device),
          idle_devices_warning(place, visible ? *visible : 0)}) {
      if (!warning.empty()) {
        context.device_warnings.push_back(warning);
      }
    }
  }
  context.share = share_of_node(environment, facts.local_world_size, context.device.type() != at::kCPU);
  return chosen ? process_group::check_backend(config.backend, context.device.plugin()) : chosen.error();
}

/// Returns the backend that connects the hosts of ranks that only agree on why they cannot train: the same on all
/// ranks, whatever each found.
std::string of_hosts(const std::string& asked) { return process_group::check_backend(asked, nullptr) ? asked : "auto"; }

}  // namespace

parallel::VirtualRanks virtual_ranks(const config::TrainConfig& config, const JobContext& context) {
  const std::int64_t wanted = config.parallel.replica.exact.virtual_ranks;
  return parallel::divide_virtual_ranks(wanted > 0 ? wanted : context.world_size, context.rank, context.world_size);
}

Result<JobContext> join_world(const step::ResolvedStep& step, const Environment& patched,
                              const settings::LaunchSettings& launch, const config::ProcessGroupConfig& config,
                              std::unique_ptr<launchers::PmixClient> pmix, FailureReport& report,
                              metrics::StartupTrace& trace, const process_group::Interrupted& lost,
                              const process_group::Interrupted& over) {
  step::apply_to_this_process(step.patch);  // Gloo, NCCL and UCX read their interface variables there
  JobContext context = context_of(step.facts);
  context.group_options.timeout = config.collective_timeout;
  const Result<void> taken = with_gpu_trouble(take_device(context, step.facts, patched, config));
  if (context.world_size == 1) {
    context.device_lines = taken ? device_lines(context) : std::vector<std::string>();
    return taken ? Result<JobContext>(std::move(context)) : taken.error();
  }
  if (config.alone) {
    return fail("--parallel", "none",
                fmt::format("{} ranks would each train alone and overwrite each other", context.world_size),
                "--parallel=ddp, or running one task", ErrorKind::Mismatch);
  }
  ASSIGN_OR_RETURN(rendezvous::Meeting meeting, rendezvous::meet(step.facts, patched, launch, pmix.get()));
  trace.mark("rendezvous");
  ASSIGN_OR_RETURN(auto store, process_group::connect_store(
                                   meeting, context.rank, context.world_size,
                                   std::chrono::ceil<std::chrono::milliseconds>(launch.rendezvous_timeout), over));
  trace.mark("store");
  context.store = store;
  context.group_store = context.store->clone();
  const auto membership = std::make_shared<process_group::Membership>(lost, context.host);
  membership->use(context.group_store, context.rank, context.world_size);
  report.attach(membership, context.store);
  // If a rank dies as a PMIx client, the whole step ends before any rank can report the cause.
  pmix.reset();
  context.rendezvous = meeting.method + " " + rendezvous::to_text(meeting.endpoint);
  context.group_options = {.backend = taken ? config.backend : of_hosts(config.backend),
                           .device = taken ? context.device.plugin() : nullptr,
                           .timeout = config.collective_timeout,
                           .compare_calls = launch.compare_collectives,
                           .membership = membership};
  process_group::ProcessGroupOptions of_all = context.group_options;
  of_all.hosts_connected = [&](const process_group::Group& hosts) { return agree_on_devices(context, hosts, taken); };
  ASSIGN_OR_RETURN(auto group,
                   process_group::make_process_group(context.group_store, context.rank, context.world_size, of_all));
  RETURN_IF_ERROR(process_group::guard_collective(group.process_group, [&] { membership->listen(); }));
  trace.mark("process group");
  context.process_group = group.process_group;
  context.backend = group.backend;
  return context;
}

Result<JobContext> join_this_step(const Environment& environment, const settings::LaunchSettings& launch,
                                  const config::ProcessGroupConfig& config, std::optional<int> threads,
                                  FailureReport& report) {
  device::set_library_variables(config.arithmetic.deterministic);
  ASSIGN_OR_RETURN(auto pmix, rendezvous::pmix_for(environment, launch));
  ASSIGN_OR_RETURN(const step::ResolvedStep step, step::resolve_this_step(environment, launch, pmix.get()));
  const Environment patched = resolve::apply(step.patch, environment);
  prepare_process(threads.value_or(parse_integer<int>(patched.get("OMP_NUM_THREADS").value_or("")).value_or(0)));
  metrics::StartupTrace trace(metrics::now());
  return join_world(step, patched, launch, config, std::move(pmix), report, trace);
}

void let_others_leave_first(JobContext& context) {
  if (!context.store) {
    return;
  }
  if (!process_group::barrier(context.process_group)) {
    return;  // a rank died since the last collective, and waiting for it would block
  }
  process_group::Membership& membership = *context.group_options.membership;
  membership.end_well();
  process_group::disconnect_devices(
      context.process_group);  // at the same time on all ranks; only groups of hosts have an order
  if (context.rank == 0) {
    membership.wait_for_others_to_leave();
    return;
  }
  context.process_group.reset();  // tells the other ranks that it leaves in good order
  membership.leave();
}

void leave_interrupted(JobContext& context) {
  let_others_leave_first(context);
  if (context.rank != 0) {
    std::fflush(nullptr);
    std::_Exit(to_int(ExitCode::Success));
  }
}

}  // namespace rollcall::train

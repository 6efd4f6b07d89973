#include "runtime/doctor/examine.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <string>
#include <utility>

#include "runtime/base/first_on_host.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/doctor/observe/observe.h"
#include "runtime/doctor/wire/benchmark.h"
#include "runtime/doctor/wire/candidates.h"
#include "runtime/doctor/wire/client.h"
#include "runtime/doctor/wire/message.h"
#include "runtime/doctor/wire/server.h"
#include "runtime/rendezvous/exec_step.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/shared_secret.h"
#include "runtime/rendezvous/world_key.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::doctor {
namespace {

using Texts = std::map<std::uint32_t, std::string>;
constexpr std::chrono::seconds kConnectPatience{5};
constexpr int kClockRounds = 3;
constexpr std::chrono::seconds kSlurmPatience{6};  ///< for an answer that another rank of this node asks of Slurm
/// How much longer than rank 0's own time limit the other ranks wait for its next request, since it may be measuring.
constexpr std::chrono::seconds kMargin{10};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// Listens at the expected port and the second one where they are free. `problem`: why the expected one is not.
std::vector<rendezvous::Listener> listen(const Candidates& candidates, std::string& problem) {
  std::vector<rendezvous::Listener> listeners;
  const auto add = [&](std::uint16_t port) {
    Result<rendezvous::Listener> listener = rendezvous::Listener::on_all_addresses(port);
    if (!listener) {
      return listener.error().reason;
    }
    listeners.push_back(*std::move(listener));
    return std::string();
  };
  if (candidates.expected) {
    problem = add(candidates.expected->port);
  }
  if (candidates.second_port != 0) {
    (void)add(candidates.second_port);
  }
  return listeners;
}

/// Returns the ring's members: the first rank of each node, or all ranks where there is one node.
std::vector<const TaskFacts*> ring_of(const JobContext& context) {
  std::vector<const TaskFacts*> members;
  for (const TaskFacts& task : context.tasks) {
    if (task.ring_port != 0 && (task.first_on_node || context.step.num_nodes == 1)) {
      members.push_back(&task);
    }
  }
  return members;
}

std::vector<rendezvous::Endpoint> endpoints_of(const TaskFacts& task) {
  std::vector<rendezvous::Endpoint> endpoints;
  for (const std::string& address : task.ring_addresses) {
    endpoints.push_back({address, task.ring_port});
  }
  return endpoints;
}

std::string name_in_ring(const TaskFacts& task, const JobContext& context) {
  return context.step.num_nodes > 1 ? task.host : fmt::format("rank {}", task.rank);
}

/// Returns a request to each member except for rank 0, which is member 0.
Texts requests_for(const std::vector<const TaskFacts*>& members, Request::What what) {
  Texts texts;
  for (std::uint32_t i = 1; i < members.size(); ++i) {
    Request request{what, i, static_cast<std::uint32_t>(members.size()), {}};
    if (what == Request::What::Connect) {
      request.neighbours = endpoints_of(*members[(i + 1) % members.size()]);
    }
    texts.emplace(members[i]->rank, to_text(request));
  }
  return texts;
}

void connect_ring(JobContext& context, const std::vector<const TaskFacts*>& members, Server& server, RingMember& own) {
  const double patience = std::min<double>(kConnectPatience.count(), context.limits.timeout_seconds);
  std::string own_error;
  // A member that tries several silent addresses may need all of its time: wait a little longer for its answer.
  const Texts answers = server.ask(requests_for(members, Request::What::Connect), after(patience + 2),
                                   [&] { own_error = own.connect(endpoints_of(*members[1]), after(patience)); });
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto answer = answers.find(members[i]->rank);
    const std::string error = i == 0 ? own_error : answer == answers.end() ? "no answer" : answer->second;
    context.ring.push_back(
        {name_in_ring(*members[i], context), name_in_ring(*members[(i + 1) % members.size()], context), error});
  }
}

void measure_ring(JobContext& context, const std::vector<const TaskFacts*>& members, Server& server, RingMember& own) {
  const auto broken = [](const RingLink& link) { return !link.error.empty(); };
  if (const auto link = std::ranges::find_if(context.ring, broken); link != context.ring.end()) {
    context.benchmark.absent = fmt::format("not measured: {} does not reach {}", link->from, link->to);
    return;
  }
  const Clock::time_point deadline = after(context.limits.timeout_seconds);
  std::vector<Benchmark> results(1);
  const Texts answers = server.ask(requests_for(members, Request::What::Measure), deadline, [&] {
    results[0] = own.measure(0, static_cast<std::uint32_t>(members.size()), deadline);
  });
  for (std::size_t i = 1; i < members.size(); ++i) {
    const auto answer = answers.find(members[i]->rank);
    results.push_back(answer == answers.end() ? Benchmark{0, members[i]->host + " was lost while measuring", {}}
                                              : parse_benchmark(answer->second));
  }
  context.benchmark = combine(results);
}

/// Reads the nodes' clocks. Half of the shortest of three round trips bounds the error, as in NTP (RFC 5905, section
/// 8).
void read_clocks(JobContext& context, Server& server) {
  for (const TaskFacts& task : context.tasks) {
    ClockReading best{task.host, 0, 1e9};
    for (int round = 0; round < kClockRounds && task.first_on_node && task.node_rank != context.step.node_rank;
         ++round) {
      const std::int64_t sent = wall_clock_nanoseconds();
      const Texts answers = server.ask({{task.rank, to_text(Request{Request::What::ReadClock, 0, 0, {}})}},
                                       after(context.limits.timeout_seconds));
      const std::int64_t received = wall_clock_nanoseconds();
      const auto answer = answers.find(task.rank);
      const auto theirs = parse_integer<std::int64_t>(answer == answers.end() ? "" : answer->second);
      const double uncertainty = static_cast<double>(received - sent) / 2e9;
      if (theirs && uncertainty < best.uncertainty_seconds) {
        best.ahead_seconds = static_cast<double>(*theirs - sent) / 1e9 - uncertainty;
        best.uncertainty_seconds = uncertainty;
      }
    }
    if (best.uncertainty_seconds < 1e9) {
      context.clocks.push_back(best);
    }
  }
}

void take_reports(JobContext& context, const Texts& reports) {
  for (const auto& [rank, text] : reports) {
    Result<TaskFacts> facts = task_facts_from_json(text);
    if (facts && facts->rank != rank) {
      context.missing.push_back({fmt::format("rank {}", rank), fmt::format("reported as rank {}", facts->rank)});
    } else if (facts) {
      context.tasks.push_back(*std::move(facts));
    } else {
      context.missing.push_back({fmt::format("rank {}", rank), facts.error().reason});
    }
  }
}

/// Lists ranks that never reported, by node: the node of a rank is known only from its report.
void name_silent_nodes(JobContext& context) {
  const std::string reason = fmt::format("did not answer within {:g} s", context.limits.timeout_seconds);
  const job::JobFacts& step = context.step;
  if (context.tasks.size() >= step.world_size) {
    return;
  }
  // Where rank 0's node is unknown, so is the order of the nodes (`srun A : B`).
  if (step.hosts.size() != step.tasks_per_node.size() || step.hosts.empty() || !step.head_known_to_all) {
    for (std::uint32_t rank = 0; rank < step.world_size; ++rank) {
      if (std::ranges::find(context.tasks, rank, &TaskFacts::rank) == context.tasks.end()) {
        context.missing.push_back({fmt::format("rank {}", rank), reason});
      }
    }
    return;
  }
  for (std::uint32_t node = 0; node < step.hosts.size(); ++node) {
    const auto answered = std::ranges::count(context.tasks, node, &TaskFacts::node_rank);
    const std::int64_t silent = std::int64_t{step.tasks_per_node[node]} - answered;
    if (silent > 0) {
      context.missing.push_back(
          {step.hosts[node], fmt::format("{} of {} {}", silent, counted(step.tasks_per_node[node], "rank"), reason)});
    }
  }
}

void name_lost_ranks(JobContext& context, const Server& server) {
  for (const auto& [rank, reason] : server.losses()) {
    const auto task = std::ranges::find(context.tasks, rank, &TaskFacts::rank);
    if (task != context.tasks.end()) {
      context.missing.push_back({task->host, fmt::format("rank {} was lost: {}", rank, reason)});
    }
  }
}

std::string why_no_collectives(const JobContext& context, const Expectations& expected) {
  if (expected.collectives.empty()) {
    return "not measured: --collectives=auto measures it with rollcall-bench-collectives";
  }
  if (context.step.world_size == 1) {
    return "there is only one rank";
  }
  if (!context.missing.empty()) {
    return "not measured: not all ranks answered";
  }
  for (const TaskFacts& task : context.tasks) {
    if (task.first_on_node && task.node.bench_program.empty()) {
      return "rollcall-bench-collectives is neither next to rollcall nor in PATH on " + task.host;
    }
  }
  return "";
}

/// Requests the collectives, which all ranks run once the ports of this exchange are free again.
void order_collectives(const JobContext& context, Server& server) {
  Texts orders;
  for (const TaskFacts& task : context.tasks) {
    orders.emplace(task.rank, to_text(Request{Request::What::Collectives, 0, 0, {}}));
  }
  (void)server.ask(orders, after(context.limits.timeout_seconds));
}

void dismiss(JobContext& context, Server& server) {
  Texts farewells;
  for (const TaskFacts& task : context.tasks) {
    farewells.emplace(task.rank, to_text(Request{}));
  }
  server.send(farewells, after(1));
}

/// Rank 0's part: listens, collects every rank's facts (its own from `observe`, in a thread), then reads the clocks and
/// runs ring and benchmark. Missing parts contain the reason.
JobContext lead(const job::JobFacts& step, const Limits& limits, const Candidates& candidates,
                const Expectations& expected, const rendezvous::Secret& secret, RingMember& ring,
                const std::function<TaskFacts()>& observe) {
  const Clock::time_point start = Clock::now();
  JobContext context;
  context.step = step;
  context.limits = limits;
  const Clock::time_point deadline = after(limits.timeout_seconds);
  std::string problem;
  Server server(listen(candidates, problem), secret, step.world_size);
  std::future<TaskFacts> own = std::async(std::launch::async, observe);
  const Texts reports = server.gather(deadline);
  context.tasks.push_back(own.get());
  context.tasks.front().head.endpoint = candidates.expected ? rendezvous::to_text(*candidates.expected) : "";
  context.tasks.front().head.error = step.world_size > 1 ? problem : "";
  take_reports(context, reports);
  context.last_rejected = server.last_rejected();
  name_silent_nodes(context);
  read_clocks(context, server);
  const std::vector<const TaskFacts*> members = ring_of(context);
  if (expected.ring && members.size() > 1) {
    connect_ring(context, members, server, ring);
  }
  if (expected.benchmark && !context.ring.empty()) {
    measure_ring(context, members, server, ring);
  }
  name_lost_ranks(context, server);
  context.collectives.absent = why_no_collectives(context, expected);
  if (context.collectives.absent.empty()) {
    order_collectives(context, server);
  }
  dismiss(context, server);
  context.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return context;
}

/// Answers a request; sets `collectives` where rank 0 requests them.
std::string answer(const Request& request, RingMember& ring, double timeout, bool& collectives) {
  switch (request.what) {
    case Request::What::ReadClock:
      return std::to_string(wall_clock_nanoseconds());
    case Request::What::Connect:
      return ring.connect(request.neighbours, after(std::min(5.0, timeout)));
    case Request::What::Measure:
      return to_text(ring.measure(request.index, request.size, after(timeout)));
    case Request::What::Collectives:
      collectives = true;
      break;
    case Request::What::Leave:
      break;
  }
  return "";
}

/// Another rank's part. Returns whether to run the collectives.
Result<bool> follow(const job::JobFacts& step, const Limits& limits, const Candidates& candidates,
                    const rendezvous::Secret& secret, RingMember& ring, TaskFacts task) {
  const auto slurms_address = [&] {
    return step.head_host.empty()
               ? ""
               : ask_once_per_host(fmt::format("head-of-{}", rendezvous::world_name(step)), kSlurmPatience,
                                   [&] { return slurms_address_of(step.head_host); });
  };
  ASSIGN_OR_RETURN(Socket rank_0, find_rank_0(candidates, secret, {.rank = step.rank}, slurms_address,
                                              after(limits.timeout_seconds), task.head));
  const Clock::time_point deadline = after(2 * limits.timeout_seconds) + kMargin;
  RETURN_IF_ERROR(rank_0.send_frame(to_json_text(task), deadline));
  bool collectives = false;
  const Result<void> served = serve(
      rank_0, step.world_size,
      [&](const Request& request) { return answer(request, ring, limits.timeout_seconds, collectives); }, deadline);
  return served ? Result<bool>(collectives) : served.error();
}

/// This rank's world as `rollcall exec` would set it, or as much as is known where exec would fail.
struct OwnStep {
  step::ObservedStep step;
  Result<resolve::EnvPatch> patch;
  Environment of_second_client;  ///< for a second PMIx client of this rank
};

/// Observes this rank's world. Uses PMIx only where the environment, which is the same in all ranks, does not contain
/// rank 0's location: PMIx blocks all ranks where one does not start, which the doctor should report.
Result<OwnStep> observe_own_step(const Environment& environment, const settings::LaunchSettings& settings) {
  ASSIGN_OR_RETURN(step::ObservedStep observed, step::observe_this_step(environment, settings, nullptr));
  if (!observed.facts.head_known_to_all && environment.get_non_empty(env::kPmixNamespace)) {
    if (Result<step::ResolvedStep> resolved = rendezvous::resolve_for_exec(environment, settings)) {
      Environment further = environment;
      if (const resolve::EnvChange* const gds = resolved->patch.find(env::kPmixGds)) {
        further.set(gds->name, gds->value);
      }
      return OwnStep{std::move(*resolved), std::move(resolved->patch), std::move(further)};
    }
  }
  Result<resolve::EnvPatch> patch = step::resolve_here(observed.facts, settings, observed.network, environment);
  return OwnStep{std::move(observed), std::move(patch), environment};
}

/// Returns the value from which the ranks' secret is derived; a single rank needs none.
Result<std::string> secret_of(const job::JobFacts& facts, const Environment& environment,
                              const settings::LaunchSettings& settings) {
  if (facts.world_size == 1) {
    return rendezvous::draw_secret();
  }
  Result<std::string> drawn = rendezvous::shared_secret(environment, settings);
  if (!drawn) {
    Error error = drawn.error();
    error.of_this_node = true;  // other nodes may have one
    return error;
  }
  return drawn;
}

}  // namespace

Limits limits_of(const settings::LaunchSettings& settings) {
  Limits limits;
  limits.loopback_allowed = settings.loopback_allowed;
  limits.timeout_seconds = settings.rendezvous_timeout.count();
  limits.clock_seconds = settings.doctor_clock_seconds;
  limits.gigabytes = settings.doctor_gigabytes;
  limits.microseconds = settings.doctor_microseconds;
  return limits;
}

Result<std::optional<JobContext>> examine(const Environment& environment, const settings::LaunchSettings& settings,
                                          const Expectations& expected) {
  ASSIGN_OR_RETURN(const OwnStep own, observe_own_step(environment, settings));
  const job::JobFacts& facts = own.step.facts;
  const Candidates candidates = candidates_of(facts, settings, own.step.network, environment, own.patch);
  ASSIGN_OR_RETURN(const std::string drawn, secret_of(facts, environment, settings));
  const auto secret = rendezvous::Secret::of(drawn, rendezvous::world_name(facts));
  RingMember ring(secret);
  const auto observe = [&] { return observe_task({own.step, own.patch, settings, environment, ring.port()}); };
  if (facts.rank == 0) {
    JobContext context = lead(facts, limits_of(settings), candidates, expected, secret, ring, observe);
    context.launch_method = observe_launch_method(environment);
    context.node_loss = observe_node_loss(environment);
    if (context.collectives.absent.empty()) {
      context.collectives = measure_collectives(context.tasks.front().node.bench_program, expected.collectives,
                                                settings, own.of_second_client);
    }
    return std::optional<JobContext>(std::move(context));
  }
  const Result<bool> followed = follow(facts, limits_of(settings), candidates, secret, ring, observe());
  if (followed && *followed) {
    // Rank 0 reports the result.
    (void)measure_collectives(bench_program(environment), expected.collectives, settings, own.of_second_client);
  }
  if (!followed && facts.local_rank == 0) {
    Error error = followed.error();
    error.of_this_node = true;  // other nodes may reach rank 0
    return error;
  }
  return std::optional<JobContext>();
}

}  // namespace rollcall::doctor

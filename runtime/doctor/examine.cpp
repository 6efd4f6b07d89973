#include "runtime/doctor/examine.h"

#include <memory>
#include <string>
#include <utility>

#include "runtime/bootstrap/gather.h"
#include "runtime/doctor/lead.h"
#include "runtime/doctor/observe/collectives.h"
#include "runtime/doctor/observe/task.h"
#include "runtime/doctor/observe/versions.h"
#include "runtime/doctor/observe/way.h"
#include "runtime/doctor/wire/candidates.h"
#include "runtime/doctor/wire/facts_json.h"
#include "runtime/doctor/wire/guest.h"
#include "runtime/doctor/wire/ring_member.h"
#include "runtime/doctor/wire/wall_clock.h"
#include "runtime/job/cpu_set.h"
#include "runtime/rendezvous/resolved_step.h"
#include "runtime/resolve/resolve.h"

namespace rollcall::doctor {
namespace {

/// How much longer than rank 0's own patience the others wait for its next word: it may be measuring.
constexpr std::chrono::seconds kMargin{10};

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

/// `collectives` becomes true where rank 0 wants them run.
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

/// Whether the collectives are to be run.
Result<bool> follow(const job::JobFacts& step, const Limits& limits, const Candidates& candidates, RingMember& ring,
                    TaskFacts task) {
  const Greeting greeting{step_key(step), step.rank, false};
  const auto slurms_address = [&] { return step.head_host.empty() ? "" : slurms_address_of(step.head_host); };
  Result<Socket> rank_0 = find_rank_0(candidates, greeting, slurms_address, after(limits.timeout_seconds), task.head);
  if (!rank_0) {
    return rank_0.error();
  }
  const Clock::time_point deadline = after(2 * limits.timeout_seconds) + kMargin;
  if (Result<void> sent = rank_0->send_frame(to_json_text(task), deadline); !sent) {
    return sent.error();
  }
  bool collectives = false;
  const Result<void> served = serve(
      *rank_0, [&](const Request& request) { return answer(request, ring, limits.timeout_seconds, collectives); },
      deadline);
  return served ? Result<bool>(collectives) : served.error();
}

/// What is known before anything is observed; lives as long as the examination.
struct Known {
  job::JobFacts facts;
  network::NetworkView network;
  std::optional<resolve::EnvPatch> patch;
  std::optional<Error> resolve_error;
};

Result<Known> find_out(const Environment& environment, const settings::Settings& settings) {
  Result<bootstrap::Gathered> gathered = bootstrap::gather(environment, nullptr);
  if (!gathered) {
    return gathered.error();
  }
  Known known;
  known.facts = std::move(gathered->facts);
  known.network = rendezvous::observe_for(known.facts, settings, environment);
  Result<resolve::EnvPatch> patch =
      resolve::resolve(known.facts, settings, known.network, environment, job::cpus_of_this_process());
  if (patch) {
    known.patch = *std::move(patch);
  } else {
    known.resolve_error = patch.error();
  }
  return known;
}

}  // namespace

Limits limits_of(const settings::Settings& settings) {
  Limits limits;
  limits.loopback_allowed = settings.text("host.loopback") == "allow";
  limits.timeout_seconds = settings.number("rendezvous.timeout");
  limits.clock_seconds = settings.number("doctor.clock");
  if (settings.text("doctor.bandwidth") != "auto") {
    limits.gigabytes = settings.number("doctor.bandwidth");
  }
  if (settings.text("doctor.latency") != "auto") {
    limits.microseconds = settings.number("doctor.latency");
  }
  return limits;
}

Result<std::optional<World>> examine(const Environment& environment, const settings::Settings& settings,
                                     const Wishes& wishes) {
  const Result<Known> known = find_out(environment, settings);
  if (!known) {
    return known.error();
  }
  const job::JobFacts& facts = known->facts;
  const resolve::EnvPatch* const patch = known->patch ? &*known->patch : nullptr;
  const Error* const error = known->resolve_error ? &*known->resolve_error : nullptr;
  const Candidates candidates = candidates_of(facts, settings, known->network, environment, patch);
  RingMember ring(step_key(facts));
  const auto observe = [&] {
    TaskFacts task = observe_task({facts, settings, environment, known->network, patch, error});
    task.ring_port = ring.port();
    return task;
  };
  if (facts.rank == 0) {
    World world = lead(facts, limits_of(settings), candidates, wishes, ring, observe);
    world.way = observe_way(environment);
    if (world.collectives.absent.empty()) {
      world.collectives =
          measure_collectives(world.tasks.front().node.bench_program, wishes.collectives, settings, environment);
    }
    return std::optional<World>(std::move(world));
  }
  const Result<bool> followed = follow(facts, limits_of(settings), candidates, ring, observe());
  if (followed && *followed) {
    // Rank 0's own run says what there is to say.
    (void)measure_collectives(bench_program(environment), wishes.collectives, settings, environment);
  }
  if (!followed && facts.local_rank == 0) {
    return followed.error();
  }
  return std::optional<World>();
}

}  // namespace rollcall::doctor

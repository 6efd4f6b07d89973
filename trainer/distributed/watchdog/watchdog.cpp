#include "trainer/distributed/watchdog/watchdog.h"

#include <fmt/format.h>
#include <algorithm>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/time_limit.h"
#include "runtime/contract/deadlines.h"
#include "trainer/distributed/errors/exceptions.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::uint64_t kSignaturesKept = 1024;  // a rank may be this many collectives ahead of the slowest

std::string signature_key(std::uint64_t number) { return "signature/" + std::to_string(number); }

std::string seconds_text(milliseconds time) {
  const std::string digits = std::to_string(static_cast<double>(time.count()) / 1000);
  return digits.substr(0, digits.find('.') + 2) + " s";
}

/// Rank 0 serves the checks of all ranks of a step: the more ranks, the longer the interval.
milliseconds interval_of(const WatchdogOptions& options) {
  return milliseconds(std::max<std::uint32_t>(100, options.world_size / 4));
}

/// Describes the step's rank 0, which holds the store and need not be in the group. The connections of a process close
/// a moment before the kernel reports its end: this waits for that report until `until`.
std::string describe_store_holder(ProcessWatch& processes, const std::string& host, const std::string& where,
                                  steady_clock::time_point until) {
  const std::string holder = "rank 0, which holds the store, ";
  const std::atomic<bool> never = false;
  std::size_t known = 0;
  while (processes.is_alive(0) && steady_clock::now() < until) {
    (void)processes.await_ended(known, std::chrono::ceil<milliseconds>(until - steady_clock::now()), never);
  }
  if (processes.has_ended(0)) {
    return "rank 0 " + lost_text(host, where);
  }
  return holder + (processes.is_alive(0)
                       ? "does not respond, but its process is alive: it is stopped or gets no CPU time"
                       : "does not respond: it is stopped or lost");
}

/// Returns what the backend's text adds to a message. Gloo's only shows that a connection closed: without diagnostics
/// it is left out unless the failure is `unexplained`.
std::string detail(const std::string& what, bool unexplained) {
  const std::string text = library_text(what);
  const bool is_shortened = text != first_line(what);
  return is_shortened && !unexplained ? "" : " (" + text + ")";
}

}  // namespace

Watchdog::Watchdog(const c10::intrusive_ptr<c10d::Store>& store, const WatchdogOptions& options)
    : options_(options), store_(store->clone()), shared_(std::make_shared<Shared>(options)) {
  options.membership->join(store_, options.names.number(options.rank), options.world_size);
  options.membership->watch_host();
  const RankQuery query = rank_query(store->clone());
  query.publish_host(options.membership->host());
  std::thread([shared = shared_, interval = interval_of(options), query] {
    answer(*shared, interval, query);
    const std::lock_guard lock(shared->mutex);
    shared->stopped = true;
    shared->changed.notify_all();
  }).detach();
  std::thread([shared = shared_, options, query] { look(*shared, options, query); }).detach();
}

RankQuery Watchdog::rank_query(const c10::intrusive_ptr<c10d::Store>& store) const {
  return {store, shared_->membership->processes(), options_.rank, options_.world_size, options_.names};
}

/// Waits for the store, and so for rank 0 if that is stopped or unreachable.
void Watchdog::answer(Shared& shared, milliseconds interval, const RankQuery& rank_query) {
  const auto try_it = [](const std::function<void()>& use_store) {
    try {
      use_store();
    } catch (const std::exception&) {
      // The store ended with rank 0, or did not answer in time: no rank asks through it any more.
    }
  };
  const auto stopped = [&shared] { return shared.stop.load(); };
  try_it([&] {
    bool answered = false;
    std::string host;
    for (std::unique_lock lock(shared.mutex); !stopped(); shared.changed.wait_for(lock, interval, stopped)) {
      lock.unlock();
      if (host.empty() && shared.store_holder) {
        host = rank_query.host_of(*shared.store_holder);
      }
      if (!answered && rank_query.is_asked()) {
        rank_query.answer(shared.progress());
        answered = true;
      }
      lock.lock();
      shared.host_of_rank_0 = host;
    }
  });
  std::unique_lock lock(shared.mutex);
  shared.changed.wait(lock, stopped);  // if the store failed before
  lock.unlock();
  try_it([&] { report_end(shared, rank_query); });
}

void Watchdog::look(Shared& shared, const WatchdogOptions& options, const RankQuery& rank_query) {
  const PendingCollectives::HasLeft has_left = [&rank_query](std::uint32_t rank) {
    return run_with_timeout(deadline::kPeerStatusQuery, [rank_query, rank] { return rank_query.has_left(rank); });
  };
  ProcessWatch& processes = *shared.membership->processes();
  const milliseconds interval = interval_of(options);
  milliseconds pause = interval;
  std::size_t known = 0;
  while (!shared.stop) {
    const std::vector<std::uint32_t> ended = processes.await_ended(known, pause, shared.stop);
    for (const std::uint32_t number : ended) {
      if (const auto rank = options.names.rank_of(number, options.world_size)) {
        shared.pending.process_ended(*rank, has_left, steady_clock::now());
      }
    }
    pause = ended.empty() ? interval : std::min(interval, deadline::kDrainEndedPeer);
    if (!shared.stop) {
      if (shared.membership->agent_has_lost()) {
        shared.pending.ranks_are_lost(steady_clock::now());
      }
      shared.pending.look(steady_clock::now());
    }
  }
}

void Watchdog::report_end(Shared& shared, const RankQuery& rank_query) {
  if (shared.failed) {
    return;
  }
  if (const std::optional<std::string> failure = shared.membership->gave_up()) {
    rank_query.give_up(shared.progress(), *failure);
  } else {
    rank_query.leave(shared.progress());
  }
}

void Watchdog::stop() {
  shared_->pending.forget();
  std::unique_lock lock(shared_->mutex);
  if (shared_->stop) {
    return;
  }
  shared_->stop = true;
  shared_->changed.notify_all();
  shared_->membership->processes()->wake();
  // If rank 0 is stopped, the thread waits for its store and is left behind.
  shared_->changed.wait_for(lock, deadline::kWatchdogReport, [this] { return shared_->stopped; });
}

void Watchdog::begin(CollectiveCall& call) {
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->now.issued += 1;
    call.number = shared_->now.issued;
    shared_->now.last = to_text(call);
  }
  if (options_.compare) {
    compare_with_rank_0(call);
  }
}

void Watchdog::end(const CollectiveCall& call) {
  const std::lock_guard lock(shared_->mutex);
  shared_->now.ended = std::max(shared_->now.ended, call.number);
}

std::uint64_t Watchdog::issued() const { return shared_->progress().issued; }

void Watchdog::compare_with_rank_0(const CollectiveCall& call) {
  const std::string mine = signature(call);
  if (options_.rank == 0) {
    store_->set(signature_key(call.number), mine);
    if (call.number > kSignaturesKept) {
      store_->deleteKey(signature_key(call.number - kSignaturesKept));
    }
    return;
  }
  const auto since = steady_clock::now();
  std::string of_rank_0;
  try {
    store_->wait({signature_key(call.number)}, options_.timeout);
    of_rank_0 = store_->get_to_str(signature_key(call.number));
  } catch (const std::exception& error) {
    throw CollectiveFailure(explain(call, since, error.what()));
  }
  if (of_rank_0 != mine) {
    const Error mismatch = fail(
        "collective", std::to_string(call.number),
        options_.names.of(options_.rank) + " calls " + mine + " where " + options_.names.of(0) + " calls " + of_rank_0,
        "making all ranks run the same collectives in the same order", ErrorKind::Mismatch);
    options_.membership->give_up(mismatch.reason);
    throw CollectiveFailure(mismatch);
  }
}

std::string Watchdog::ask_all(std::uint64_t number, bool late) {
  const QueryTimeouts timeouts = options_.query_timeouts.value_or(query_timeouts(interval_of(options_)));
  const std::string where = shared_->membership->step_text();
  const auto until = steady_clock::now() + timeouts.several_silent;
  const std::optional<std::string> missing =
      run_with_timeout(timeouts.several_silent + std::chrono::seconds(3),
                       [rank_query = rank_query(store_), number, late, timeouts, where, own = shared_->progress()] {
                         return rank_query.ask(number, own, /*any_lost=*/!late, timeouts, where);
                       });
  if (missing) {
    return *missing;
  }
  const std::string host = [&] {
    const std::lock_guard lock(shared_->mutex);
    return shared_->host_of_rank_0;
  }();
  return describe_store_holder(*shared_->membership->processes(), host, where, until);
}

Error Watchdog::explain(const CollectiveCall& call, steady_clock::time_point since, const std::string& what,
                        bool reported) {
  const std::lock_guard lock(explaining_);
  if (reported_) {
    return *reported_;
  }
  shared_->failed = true;
  if (reported) {
    reported_ =
        fail("collective", to_text(call), what, "looking at the messages of `rollcall run`", ErrorKind::PeerLost);
    return *reported_;
  }
  const bool late = steady_clock::now() - since >= options_.timeout * 9 / 10;
  const std::string missing = ask_all(call.number, late);
  const bool unexplained = !late && missing == kAllRanksHaveArrived;
  const std::string reason = (late          ? "did not end within " + seconds_text(options_.timeout) + ": "
                              : unexplained ? "failed, although "
                                            : "") +
                             missing + detail(what, unexplained);
  if (!options_.expendable) {
    options_.membership->give_up(to_text(call) + (late ? " did not end: " : " failed: ") + missing);
  }
  const std::string action = "looking for the cause in this output and in Slurm's";
  reported_ =
      fail("collective", to_text(call), reason,
           late ? fmt::format("{}, or raising {} if it was only slow", action, options_.timeout_setting) : action,
           late ? ErrorKind::PeerTimeout : ErrorKind::PeerLost);
  return *reported_;
}

Error Watchdog::explain_by_itself(const Error& error) {
  const std::lock_guard lock(explaining_);
  if (!reported_) {
    reported_ = error;
    options_.membership->give_up(error.setting + ": " + error.reason);
  }
  return *reported_;
}

}  // namespace rollcall::process_group

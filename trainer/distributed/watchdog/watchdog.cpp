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

/// Rank 0 serves all looks of a step: fewer of them where there are many ranks.
milliseconds interval_of(const WatchdogOptions& options) {
  return milliseconds(std::max<std::uint32_t>(100, options.world_size / 4));
}

/// It is the step's rank 0 that holds it, which need not be one of the group's. Of a process that ends the connections
/// close first, and the kernel says a moment later that it has ended: that is awaited until `until`.
std::string silent_store(ProcessWatch& processes, steady_clock::time_point until) {
  const std::string holder = "rank 0, which holds the store, ";
  const std::atomic<bool> never = false;
  std::size_t known = 0;
  while (processes.lives(0) && steady_clock::now() < until) {
    (void)processes.await_ended(known, std::chrono::ceil<milliseconds>(until - steady_clock::now()), never);
  }
  if (processes.has_ended(0)) {
    return holder + "is lost: its process ended";
  }
  return holder + (processes.lives(0) ? "does not answer, but its process lives: it is stopped or gets no processor"
                                      : "does not answer: it is stopped or lost");
}

}  // namespace

Watchdog::Watchdog(const c10::intrusive_ptr<c10d::Store>& store, const WatchdogOptions& options)
    : options_(options), store_(store->clone()), shared_(std::make_shared<Shared>(options)) {
  options.membership->join(store_, options.names.number(options.rank), options.world_size);
  options.membership->watch_host();
  const RankQuery query = rank_query(store->clone());
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

/// Waits for the store, and so for rank 0 where that is stopped or cut off.
void Watchdog::answer(Shared& shared, milliseconds interval, const RankQuery& rank_query) {
  const auto try_it = [](const std::function<void()>& use_store) {
    try {
      use_store();
    } catch (const std::exception&) {
      // The store went with rank 0, or did not answer in time: nobody asks through it any more.
    }
  };
  const auto stopped = [&shared] { return shared.stop.load(); };
  try_it([&] {
    bool answered = false;
    for (std::unique_lock lock(shared.mutex); !stopped(); shared.changed.wait_for(lock, interval, stopped)) {
      lock.unlock();
      if (!answered && rank_query.is_asked()) {
        rank_query.answer(shared.progress());
        answered = true;
      }
      lock.lock();
    }
  });
  std::unique_lock lock(shared.mutex);
  shared.changed.wait(lock, stopped);  // where the store failed before
  lock.unlock();
  try_it([&] { tell_end(shared, rank_query); });
}

void Watchdog::look(Shared& shared, const WatchdogOptions& options, const RankQuery& rank_query) {
  const PendingCollectives::HasLeft has_left = [&rank_query](std::uint32_t rank) {
    return run_within(deadline::kWordOfPeer, [rank_query, rank] { return rank_query.has_left(rank); });
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
    pause = ended.empty() ? interval : std::min(interval, deadline::kEndedPeerIsRead);
    if (!shared.stop) {
      if (shared.membership->agent_has_lost()) {
        shared.pending.ranks_are_lost(steady_clock::now());
      }
      shared.pending.look(steady_clock::now());
    }
  }
}

void Watchdog::tell_end(Shared& shared, const RankQuery& rank_query) {
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
  // Where rank 0 is stopped, the thread waits for its store and is left behind.
  shared_->changed.wait_for(lock, deadline::kLastWord, [this] { return shared_->stopped; });
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
  const Allowance allowance = options_.answers.value_or(allowance_of(interval_of(options_)));
  const auto until = steady_clock::now() + allowance.for_many;
  const std::optional<std::string> missing =
      run_within(allowance.for_many + std::chrono::seconds(3),
                 [rank_query = rank_query(store_), number, late, allowance, own = shared_->progress()] {
                   return rank_query.ask(number, own, /*anybody_gone=*/!late, allowance);
                 });
  return missing ? *missing : silent_store(*shared_->membership->processes(), until);
}

Error Watchdog::explain(const CollectiveCall& call, steady_clock::time_point since, const std::string& what,
                        bool told) {
  const std::lock_guard lock(explaining_);
  if (told_) {
    return *told_;
  }
  shared_->failed = true;
  if (told) {
    told_ = fail("collective", to_text(call), what, "looking at what `rollcall run` says", ErrorKind::PeerLost);
    return *told_;
  }
  const bool late = steady_clock::now() - since >= options_.timeout * 9 / 10;
  const std::string missing = ask_all(call.number, late);
  const std::string reason =
      (late ? "did not end within " + seconds_text(options_.timeout) + ": " : "failed, so a peer was lost: ") +
      missing + " (" + first_line(what) + ")";
  if (!options_.expendable) {
    options_.membership->give_up(to_text(call) + (late ? " did not end: " : " failed: ") + missing);
  }
  const std::string action = "looking for the first rank that ended or stands still, in this output and in Slurm's";
  told_ = fail("collective", to_text(call), reason,
               late ? fmt::format("{}; a longer {} if it was only slow", action, options_.timeout_setting) : action,
               late ? ErrorKind::PeerLate : ErrorKind::PeerLost);
  return *told_;
}

Error Watchdog::explain_by_itself(const Error& error) {
  const std::lock_guard lock(explaining_);
  if (!told_) {
    told_ = error;
    options_.membership->give_up(error.setting + ": " + error.reason);
  }
  return *told_;
}

}  // namespace rollcall::process_group

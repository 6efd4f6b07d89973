#include "trainer/process_group/watchdog.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "trainer/process_group/collective_failure.h"
#include "trainer/process_group/within.h"

namespace rollcall::process_group {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kCalled = "roll call";
constexpr std::uint64_t kSignaturesKept = 1024;  // a rank may be this many collectives ahead of the slowest

std::vector<std::uint8_t> bytes(const std::string& text) { return {text.begin(), text.end()}; }
std::string text(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

std::string answer_key(std::uint32_t rank) { return "answer/" + std::to_string(rank); }
std::string signature_key(std::uint64_t number) { return "signature/" + std::to_string(number); }

std::string seconds_text(milliseconds time) {
  const std::string digits = std::to_string(static_cast<double>(time.count()) / 1000);
  return digits.substr(0, digits.find('.') + 2) + " s";
}

std::string first_line(const std::string& what) { return what.substr(0, what.find('\n')); }

/// Rank 0 serves all looks of a step: fewer of them where there are many ranks.
milliseconds interval_of(const WatchdogOptions& options) {
  return milliseconds(std::max<std::uint32_t>(100, options.world_size / 4));
}

/// Asks all ranks where they are in collective `number`; this one is where `own` says.
std::string roll_call(c10d::Store& store, const WatchdogOptions& options, std::uint64_t number,
                      const Whereabouts& own) {
  // One rank may be lost, so all others are enough after a moment; a busy machine gets longer.
  const auto began = steady_clock::now();
  const auto moment = began + interval_of(options) + milliseconds(150);
  const auto deadline = began + 10 * interval_of(options) + milliseconds(1000);
  std::vector<std::optional<Whereabouts>> answers(options.world_size);
  // The thread that answers may be the one that asks.
  store.set(answer_key(options.rank), bytes(serialise(own)));
  store.set(kCalled, bytes("1"));
  std::size_t silent = answers.size();
  while (silent > 0 && steady_clock::now() < (silent == 1 ? moment : deadline)) {
    silent = 0;
    for (std::uint32_t rank = 0; rank < answers.size(); ++rank) {
      if (!answers[rank] && store.check({answer_key(rank)})) {
        answers[rank] = parse_whereabouts(text(store.get(answer_key(rank))));
      }
      silent += answers[rank] ? 0U : 1U;
    }
    std::this_thread::sleep_for(milliseconds(5));
  }
  return who_is_missing(number, answers);
}

}  // namespace

Watchdog::Watchdog(const c10::intrusive_ptr<c10d::Store>& store, const WatchdogOptions& options,
                   std::function<std::vector<std::uint32_t>()> broken_peers)
    : options_(options), shared_(std::make_shared<Shared>(std::move(broken_peers))), store_(store->clone()) {
  std::thread([shared = shared_, own = store->clone(), options] {
    answer_and_look(*shared, options, own);
    const std::lock_guard lock(shared->mutex);
    shared->stopped = true;
    shared->changed.notify_all();
  }).detach();
}

void Watchdog::answer_and_look(Shared& shared, const WatchdogOptions& options,
                               const c10::intrusive_ptr<c10d::Store>& store) {
  bool may_be_asked = true;
  const auto answer = [&](const Whereabouts& now) {
    if (may_be_asked && store->check({kCalled})) {
      store->set(answer_key(options.rank), bytes(serialise(now)));
      may_be_asked = false;
    }
  };
  const auto try_it = [&](const std::function<void()>& use_store) {
    try {
      use_store();
    } catch (const std::exception&) {
      may_be_asked = false;  // the store went with rank 0: nobody can ask any more
    }
  };
  std::unique_lock lock(shared.mutex);
  while (!shared.changed.wait_for(lock, interval_of(options), [&] { return shared.stop; })) {
    const Whereabouts now = shared.now;
    lock.unlock();
    try_it([&] { answer(now); });
    shared.search.look(store);
    lock.lock();
  }
  lock.unlock();
  if (!shared.failed) {
    try_it([&] { LostPeerSearch::tell_that_it_leaves(*store, options.rank); });
  }
}

void Watchdog::stop() {
  shared_->search.forget_connections();
  std::unique_lock lock(shared_->mutex);
  if (shared_->stop) {
    return;
  }
  shared_->stop = true;
  shared_->changed.notify_all();
  // Where rank 0 is stopped, the thread waits for its store and is left behind.
  shared_->changed.wait_for(lock, std::chrono::seconds(1), [this] { return shared_->stopped; });
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

std::uint64_t Watchdog::issued() const { return whereabouts().issued; }

Whereabouts Watchdog::whereabouts() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->now;
}

void Watchdog::compare_with_rank_0(const CollectiveCall& call) {
  const std::string mine = signature(call);
  if (options_.rank == 0) {
    store_->set(signature_key(call.number), bytes(mine));
    if (call.number > kSignaturesKept) {
      store_->deleteKey(signature_key(call.number - kSignaturesKept));
    }
    return;
  }
  const auto since = steady_clock::now();
  std::string of_rank_0;
  try {
    store_->wait({signature_key(call.number)}, options_.timeout);
    of_rank_0 = text(store_->get(signature_key(call.number)));
  } catch (const std::exception& error) {
    throw CollectiveFailure(explain(call, since, error.what()));
  }
  if (of_rank_0 != mine) {
    throw CollectiveFailure(
        fail("collective", std::to_string(call.number),
             "rank " + std::to_string(options_.rank) + " calls " + mine + " where rank 0 calls " + of_rank_0,
             "making all ranks run the same collectives in the same order", ExitCode::Mismatch));
  }
}

std::string Watchdog::ask_all(std::uint64_t number) {
  constexpr auto kAtMost = std::chrono::seconds(5);
  const std::optional<std::string> missing =
      within<std::string>(kAtMost, [store = store_, options = options_, number, own = whereabouts()] {
        return roll_call(*store, options, number, own);
      });
  return missing.value_or("rank 0, which holds the store, does not answer: it is stopped or lost");
}

Error Watchdog::explain(const CollectiveCall& call, steady_clock::time_point since, const std::string& what) {
  const std::lock_guard lock(explaining_);
  if (told_) {
    return *told_;
  }
  shared_->failed = true;
  const bool late = steady_clock::now() - since >= options_.timeout * 9 / 10;
  const std::string missing = ask_all(call.number);
  const std::string reason =
      (late ? "did not end within " + seconds_text(options_.timeout) + ": " : "failed, so a peer was lost: ") +
      missing + " (" + first_line(what) + ")";
  const std::string action = "looking for the first rank that ended or stands still, in this output and in Slurm's";
  told_ = fail("collective", to_text(call), reason,
               late ? action + "; a longer --collective-timeout if it was only slow" : action, ExitCode::Unavailable);
  return *told_;
}

}  // namespace rollcall::process_group

#include "trainer/distributed/membership/membership.h"

#include <c10/util/Exception.h>
#include <chrono>
#include <exception>
#include <thread>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/base/time_limit.h"
#include "runtime/contract/deadlines.h"
#include "runtime/store/server.h"
#include "trainer/distributed/membership/rank_query.h"

namespace rollcall::process_group {
namespace {

constexpr const char* kCause = "rollcall/cause";

/// Parses a rank, a line feed and a serialised error.
std::optional<Membership::Cause> parse_cause(const std::string& text, std::uint32_t own_rank) {
  const std::size_t end = text.find('\n');
  const std::optional<Result<void>> outcome =
      end == std::string::npos ? std::nullopt : parse_outcome(std::string_view(text).substr(end + 1));
  if (!outcome || *outcome) {
    return std::nullopt;
  }
  return Membership::Cause{.mine = text.substr(0, end) == std::to_string(own_rank), .error = outcome->error()};
}

}  // namespace

void Membership::use(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t world_size) {
  if (!store_) {
    store_ = store;
    rank_ = rank;
    world_size_ = world_size;
  }
}

void Membership::join(const c10::intrusive_ptr<c10d::Store>& store, std::uint32_t rank, std::uint32_t world_size) {
  use(store, rank, world_size);
  if (!processes_) {
    processes_ = std::make_shared<ProcessWatch>();
    publish_process(*store_, rank_);
  }
}

void Membership::watch_host() {
  if (!std::exchange(watches_, true)) {
    watch_host_peers(*store_, rank_, *processes_);
  }
}

void Membership::listen() const {
  std::thread([store = store_->clone(), processes = processes_, rank = rank_] {
    constexpr std::chrono::hours kYear{24 * 365};
    try {
      for (std::uint64_t number = 1;; ++number) {
        const std::string key = store::closed_key(number);
        store->wait({key}, kYear);
        if (const auto ended = parse_integer<std::uint32_t>(store->get_to_str(key))) {
          processes->end(*ended);
        }
      }
    } catch (const c10::DistNetworkError&) {
      if (rank != 0) {
        processes->end(0);
      }
    } catch (const std::exception&) {
      // The agent reported that this world is over.
    }
  }).detach();
}

void Membership::give_up(const std::string& what) {
  const std::lock_guard lock(mutex_);
  gave_up_ = gave_up_.value_or(what);
}

std::optional<std::string> Membership::gave_up() const {
  const std::lock_guard lock(mutex_);
  return gave_up_;
}

void Membership::device_fails(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    device_failure_ = device_failure_.value_or(error);
  }
  if (!is_peer_failure(error)) {
    (void)claim(error);
  }
  abort_devices();
}

void Membership::abort_devices() {
  std::vector<std::function<void()>> then;
  {
    const std::lock_guard lock(mutex_);
    devices_are_aborted_ = true;
    then = std::exchange(when_devices_are_aborted_, {});
  }
  for (const std::function<void()>& call : then) {
    call();
  }
}

void Membership::when_devices_are_aborted(std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!devices_are_aborted_) {
      when_devices_are_aborted_.push_back(std::move(then));
      return;
    }
  }
  then();
}

std::optional<Error> Membership::device_failure() const {
  const std::lock_guard lock(mutex_);
  return device_failure_;
}

std::optional<Membership::Cause> Membership::claim(const Error& error) const {
  if (!store_) {
    return std::nullopt;
  }
  const std::string mine = std::to_string(rank_) + "\n" + serialise(error);
  const auto first = run_with_timeout(
      deadline::kStoreQuery, [store = store_, mine] { return store->compareSet(kCause, std::string(), mine); });
  return first ? parse_cause(*first, rank_) : std::nullopt;
}

void Membership::leave() const {
  if (store_) {
    (void)run_with_timeout(deadline::kStoreQuery, [store = store_, key = store::left_key(rank_)] {
      store->set(key, std::string("1"));
      return store->check({key});  // set() alone may return before the store has it, and the process may end
    });
  }
}

void Membership::wait_for_others_to_leave() const {
  if (rank_ == 0) {
    wait_for(1, world_size_);
  }
}

void Membership::wait_for_rank_0_to_leave() const {
  if (rank_ != 0) {
    wait_for(0, 1);
  }
}

void Membership::wait_for(std::uint32_t first, std::uint32_t end) const {
  std::vector<std::string> keys;
  for (std::uint32_t rank = first; rank < end; ++rank) {
    keys.push_back(store::left_key(rank));
  }
  try {
    if (store_) {
      store_->wait(keys, deadline::kOthersDisconnect);
    }
  } catch (const std::exception&) {
    // Some are stopped, or their node does not respond, or the store is gone: no rank uses it any more.
  }
}

}  // namespace rollcall::process_group

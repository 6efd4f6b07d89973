// How a worker's thread sleeps, and what wakes it.
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <array>

#include "trainer/distributed/backends/ucx/worker.h"
#include "trainer/distributed/processes/process_identity.h"

namespace rollcall::process_group::ucx {
namespace {

// What epoll calls its descriptors; smaller numbers are ranks.
constexpr std::uint64_t kUcxEvent = std::uint64_t{1} << 32;
constexpr std::uint64_t kWakeEvent = kUcxEvent + 1;

}  // namespace

void Worker::await_events() {
  epoll_fd_ = epoll_create1(EPOLL_CLOEXEC);
  wake_fd_ = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  await_events_of(event_fd_, kUcxEvent);
  await_events_of(wake_fd_, kWakeEvent);
}

void Worker::await_events_of(int descriptor, std::uint64_t name) const {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = name;
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, descriptor, &event);
}

void Worker::watch(std::uint32_t peer, const std::string& identity) {
  Peer& watched = peers_.at(peer);
  watched.process_fd = watch_process(identity);
  if (watched.process_fd >= 0) {
    await_events_of(watched.process_fd, peer);
  }
}

bool Worker::arm() {
  // The first tries may only take back what was raised while nobody slept.
  constexpr int kTries = 3;
  for (int i = 0; i < kTries; ++i) {
    if (ucp_worker_arm(handle_) == UCS_OK) {
      return true;
    }
  }
  return false;
}

void Worker::sleep(std::chrono::milliseconds longest) {
  // What there is to do may also be sends that wait for room in a peer's queue, which raises no event.
  if (arm()) {
    handle(await_event(longest));
  } else {
    sched_yield();
  }
}

Worker::Events Worker::await_event(std::chrono::milliseconds longest) const {
  std::array<epoll_event, 16> events{};
  const int count =
      epoll_wait(epoll_fd_, events.data(), static_cast<int>(events.size()), static_cast<int>(longest.count()));
  Events names;
  for (int i = 0; i < count; ++i) {
    names.push_back(events[static_cast<std::size_t>(i)].data.u64);
  }
  return names;
}

void Worker::handle(const Events& events) {
  for (const std::uint64_t name : events) {
    if (name == kWakeEvent) {
      std::uint64_t times = 0;
      [[maybe_unused]] const ssize_t drained = read(wake_fd_, &times, sizeof times);
    } else if (name < peers_.size() && !peers_[name].ended) {
      lose_ended(peers_[name]);
    }
  }
}

void Worker::let_messages_wake(bool wakes) const {
  epoll_event event{};
  event.events = wakes ? EPOLLIN : 0U;
  event.data.u64 = kUcxEvent;
  epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, event_fd_, &event);
}

void Worker::wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_fd_, &one, sizeof one);
}

}  // namespace rollcall::process_group::ucx

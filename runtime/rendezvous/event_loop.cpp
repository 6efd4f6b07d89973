#include "runtime/rendezvous/event_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

#include "runtime/base/result.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::chrono::milliseconds kAfterFailure{2};

}  // namespace

EventLoop::EventLoop() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  problem_ = epoll_ < 0 ? errno_text(errno) : "";
  pthread_sigmask(SIG_SETMASK, nullptr, &before_);
}

EventLoop::~EventLoop() {
  if (signals_ >= 0) {
    close(signals_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  if (epoll_ >= 0) {
    close(epoll_);
  }
}

void EventLoop::watch(int descriptor, Ready ready) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = descriptor;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, descriptor, &event) != 0 && problem_.empty()) {
    problem_ = errno_text(errno);
  }
  ready_[descriptor] = std::move(ready);
}

void EventLoop::watch_writing(int descriptor, bool on) {
  epoll_event event{};
  event.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.fd = descriptor;
  epoll_ctl(epoll_, EPOLL_CTL_MOD, descriptor, &event);
}

void EventLoop::forget(int descriptor) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, descriptor, nullptr);
  ready_.erase(descriptor);
}

void EventLoop::handle_signals(const std::vector<int>& signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    struct sigaction action {};
    sigaction(signal, nullptr, &action);
    const bool ignored = action.sa_handler == SIG_IGN;
    if (ignored && signal == SIGCHLD) {
      std::signal(SIGCHLD, SIG_DFL);  // otherwise children leave no exit status
    } else if (ignored) {
      continue;  // nohup ignores HUP, which stays so; a blocked signal would arrive (signal(7))
    }
    sigaddset(&set, signal);
  }
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  watch(signals_, [] {});
}

std::vector<int> EventLoop::wait(std::optional<Clock::time_point> until) {
  std::array<epoll_event, 64> events{};
  const int count =
      epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), until ? milliseconds_until(*until) : -1);
  if (count < 0 && errno != EINTR) {
    std::this_thread::sleep_for(kAfterFailure);  // so that a caller that retries does not use a whole core
  }
  for (int i = 0; i < count; ++i) {
    const auto found = ready_.find(events[static_cast<std::size_t>(i)].data.fd);
    if (found != ready_.end()) {  // an earlier ready function may have removed it
      const Ready ready = found->second;
      ready();
    }
  }
  std::vector<int> arrived;
  signalfd_siginfo info{};
  while (signals_ >= 0 && read(signals_, &info, sizeof info) == sizeof info) {
    arrived.push_back(static_cast<int>(info.ssi_signo));
  }
  return arrived;
}

}  // namespace rollcall::rendezvous

#include "runtime/base/time_limit.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "runtime/base/thread_without_signals.h"

namespace rollcall {

TimeLimit::TimeLimit(Seconds patience, OnExpiry on_expiry) : on_expiry_(std::move(on_expiry)), patience_(patience) {
  try {
    thread_ = thread_without_signals([this] { watch(); });
  } catch (const std::system_error&) {
    // The limit of processes is reached; the program that follows reports it.
  }
}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
    wait_until_gone();
  }
}

/// Waits until the kernel has removed the thread, which may be after join() returns: setns(2) and unshare(2) refuse a
/// process with several threads.
void TimeLimit::wait_until_gone() const {
  constexpr int kTries = 100'000;
  for (int tried = 0; tried < kTries && ::syscall(SYS_tgkill, ::getpid(), tid_, 0) == 0; ++tried) {
    ::sched_yield();
  }
}

void TimeLimit::set_patience(Seconds patience) {
  const std::lock_guard lock(mutex_);
  patience_ = patience;
  changed_.notify_all();
}

void TimeLimit::doing(std::string what) {
  const std::lock_guard lock(mutex_);
  doing_ = std::move(what);
}

void TimeLimit::watch() {
  std::unique_lock lock(mutex_);
  tid_ = static_cast<int>(::syscall(SYS_gettid));
  const auto end = [&] { return begin_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(patience_); };
  while (!over_ && std::chrono::steady_clock::now() < end()) {
    changed_.wait_until(lock, end());
  }
  if (!over_) {
    on_expiry_(doing_, patience_);
  }
}

}  // namespace rollcall

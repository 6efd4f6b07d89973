#include "trainer/checkpoint/background/worker.h"

#include <pthread.h>

#include <cassert>
#include <utility>

namespace rollcall::checkpoint::background {

Worker::Worker() : thread_([this] { run(); }) {}

Worker::~Worker() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Worker::start(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    assert(!work_);
    work_ = std::move(work);
  }
  changed_.notify_all();
}

void Worker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !work_; });
}

bool Worker::busy() const {
  const std::lock_guard lock(mutex_);
  return static_cast<bool>(work_);
}

void Worker::run() {
  pthread_setname_np(pthread_self(), "rollcall-save");  // for top, gdb and whoever gives it another priority
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return work_ || ending_; });
    if (!work_) {
      return;
    }
    lock.unlock();
    work_();
    lock.lock();
    work_ = nullptr;
    changed_.notify_all();
  }
}

}  // namespace rollcall::checkpoint::background

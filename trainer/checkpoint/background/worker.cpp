#include "trainer/checkpoint/background/worker.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cassert>
#include <utility>

namespace rollcall::checkpoint::background {

Worker::Worker(int niceness) : thread_([this, niceness] { run(niceness); }) {}

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

void Worker::run(int niceness) {
  if (niceness != 0) {
    const auto self = static_cast<id_t>(::gettid());
    // In vain where a limit forbids it: then the work is only less polite.
    static_cast<void>(::setpriority(PRIO_PROCESS, self, ::getpriority(PRIO_PROCESS, self) + niceness));
  }
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

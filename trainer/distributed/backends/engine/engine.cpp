#include "trainer/distributed/backends/engine/engine.h"

#include <utility>

namespace rollcall::process_group {

void Submissions::submit(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    operations_.push_back(std::move(operation));
  }
  news_.notify_one();
}

void Submissions::abort(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    abort_reason_ = reason;
  }
  news_.notify_one();
}

void Submissions::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  news_.notify_one();
}

std::vector<Operation> Submissions::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(operations_, {});
}

std::optional<std::string> Submissions::take_abort() {
  const std::lock_guard lock(mutex_);
  return std::exchange(abort_reason_, std::nullopt);
}

bool Submissions::is_stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void Submissions::wait(std::optional<std::chrono::microseconds> longest) {
  const auto has_news = [this] { return stopped_ || !operations_.empty() || abort_reason_; };
  std::unique_lock lock(mutex_);
  if (longest) {
    news_.wait_for(lock, *longest, has_news);
  } else {
    news_.wait(lock, has_news);
  }
}

void report_end(const Operation& operation, std::uint64_t number, const std::string& failure) {
  operation.done(failure.empty() ? "" : operation.name + " (number " + std::to_string(number) + "): " + failure);
}

}  // namespace rollcall::process_group

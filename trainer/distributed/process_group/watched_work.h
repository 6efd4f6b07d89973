#pragma once

#include <chrono>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "trainer/distributed/process_group/collective_call.h"
#include "trainer/distributed/process_group/watchdog.h"

namespace rollcall::process_group {

/// A collective under way whose failure is a CollectiveFailure. All else is the back end's own Work.
class WatchedWork final : public c10d::Work {
 public:
  /// `may_wait_for_ever`: the back end does not end everything that waits for a lost peer; `inner` has a future.
  WatchedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
              bool may_wait_for_ever);

  bool isCompleted() override { return outcome_ ? outcome_->future()->completed() : inner_->isCompleted(); }
  bool isSuccess() const override { return outcome_ ? outcome_->future()->hasValue() : inner_->isSuccess(); }
  std::exception_ptr exception() const override {
    return outcome_ ? outcome_->future()->exception_ptr() : inner_->exception();
  }
  int sourceRank() const override { return inner_->sourceRank(); }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return inner_->getFutureResult(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return call_.number; }
  std::chrono::milliseconds getTimeout() const override { return inner_->getTimeout(); }
  uint64_t getCompletionKey() const override { return inner_->getCompletionKey(); }

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  std::shared_ptr<Watchdog> watchdog_;
  CollectiveCall call_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  std::shared_ptr<Outcome> outcome_;  ///< null where the back end ends everything itself
};

}  // namespace rollcall::process_group

#pragma once

#include <ATen/record_function.h>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "trainer/distributed/watchdog/pending_collectives.h"
#include "trainer/distributed/watchdog/watchdog.h"
#include "trainer/libtorch_version.h"

namespace rollcall::process_group {

using RecordedSpan = std::shared_ptr<at::RecordFunction>;

/// Starts a span of a collective for profilers (--trace-steps, PyTorch's profiler), which lasts until it is ended or
/// released. Null if no profiler records. `what` begins its name: "collective: ".
RecordedSpan begin_span(const char* what, const CollectiveCall& call, const std::string& backend);

/// A pending collective that fails with a CollectiveFailure. Otherwise it behaves as the backend's own Work.
class WatchedWork final : public c10d::Work {
 public:
  /// How a wait for `inner` behaves.
  enum Waiting {
    Ends,         ///< it ends in any case
    MayNotEnd,    ///< it may not end after a peer was lost; `inner` has a future
    IsOfAStream,  ///< a stream waits, not the host: a device runs the collective
  };
  /// `span` ends at the latest when a thread has waited for the work. `device`: which runs the collective, if one does.
  WatchedWork(c10::intrusive_ptr<c10d::Work> inner, std::shared_ptr<Watchdog> watchdog, CollectiveCall call,
              Waiting waiting, RecordedSpan span, std::optional<c10::Device> device);

  bool isCompleted() override { return watched_ ? watched_->future()->completed() : inner_->isCompleted(); }
  bool isSuccess() const override { return watched_ ? watched_->future()->hasValue() : inner_->isSuccess(); }
  std::exception_ptr exception() const override {
    return watched_ ? watched_->future()->exception_ptr() : inner_->exception();
  }
  std::vector<at::Tensor> result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  void blockCurrentStream() override { inner_->blockCurrentStream(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return inner_->getFutureResult(); }
  float getDuration() const override { return inner_->getDuration(); }
  uint64_t getSequencenumber() const override { return call_.number; }
#if !ROLLCALL_LIBTORCH_2_11
  std::chrono::milliseconds getTimeout() const override { return inner_->getTimeout(); }
  uint64_t getCompletionKey() const override { return inner_->getCompletionKey(); }
#endif

 private:
  c10::intrusive_ptr<c10d::Work> inner_;
  std::shared_ptr<Watchdog> watchdog_;
  CollectiveCall call_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  Waiting waiting_;
  std::shared_ptr<WatchedCollective> watched_;  ///< set with MayNotEnd
  RecordedSpan span_;
};

}  // namespace rollcall::process_group

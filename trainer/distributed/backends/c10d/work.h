#pragma once

#include <torch/torch.h>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"

namespace rollcall::process_group {

/// An operation of the back end, as its caller sees it. Thread-safe.
class EngineWork final : public c10d::Work {
 public:
  EngineWork(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> results,
             std::weak_ptr<Engine> engine);

  /// The engine calls it once. `failure` empty: it succeeded, and `finish` (may be empty) completes the
  /// results first; what that throws is a failure too.
  void complete(const std::string& failure, int source, const std::function<void()>& finish);

  /// The waiting thread helps the engine.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }
  /// Who sent what recvAnysource() received; -1 before that.
  int sourceRank() const override { return source_.load(); }

 private:
  std::uint64_t sequence_;
  std::vector<at::Tensor> results_;
  std::weak_ptr<Engine> engine_;
  std::atomic<int> source_{-1};
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace rollcall::process_group

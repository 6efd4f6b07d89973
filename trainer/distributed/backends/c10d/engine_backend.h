#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "trainer/distributed/backends/engine/engine.h"
#include "trainer/libtorch_version.h"
#include "trainer/torch.h"

namespace rollcall::process_group {

/// A c10d backend over an Engine, for contiguous CPU tensors. It has the collectives that trainings call,
/// with c10d's semantics; docs/developer/backends.md has the table.
///
/// All operations are asynchronous and progress while the caller computes (see Engine). They run in the order in which
/// they are called, the same on all ranks. Each has a timeout, its own or the group's. The first failure ends the
/// group.
///
/// Thread-safe as c10d requires: one thread calls, any thread may wait. Callbacks of futures run on the engine's thread
/// or one that waits, and must not destroy the group. Throws c10::Error for invalid arguments; Work::wait() throws the
/// failures of operations.
class EngineBackend final : public c10d::Backend {
 public:
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<std::vector<at::Tensor>>;

  /// `name`: "ucx"; errors begin with it.
  EngineBackend(std::string name, std::unique_ptr<Engine> engine, int rank, int world_size,
                std::chrono::milliseconds timeout);
  ~EngineBackend() override { engine_->shutdown(); }
  EngineBackend(const EngineBackend&) = delete;
  EngineBackend& operator=(const EngineBackend&) = delete;

  const std::string getBackendName() const override { return name_; }
  c10::intrusive_ptr<Options> getBackendOptions() override;
  void setTimeout(std::chrono::milliseconds timeout) override { timeout_ = timeout; }
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void abort() override;
  void shutdown() override;

  WorkPointer allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPointer reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                    const c10d::ReduceScatterOptions& options) override;

  WorkPointer broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPointer allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPointer all_gather_single(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPointer gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPointer all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_rows,
                                std::vector<std::int64_t>& input_rows, const c10d::AllToAllOptions& options) override;
  WorkPointer barrier(const c10d::BarrierOptions& options) override;

 private:
  /// A collective that is to be submitted to the engine.
  struct Call {
    c10d::OpType type = c10d::OpType::UNKNOWN;
    std::string name;  ///< "all_reduce"
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
    bool awaited = false;   ///< see Operation
    Collective collective;  ///< without its memory
    at::Tensor input;       ///< contiguous; may be undefined
    at::Tensor output;      ///< contiguous; may be undefined
    Tensors results;
    std::function<void()> finish;  ///< called on the engine's thread once the output is complete; may be empty
  };

  /// Returns a call of `collective` with c10d's `options`. The caller adds its tensors.
  template <typename Options>
  [[nodiscard]] static Call call_of(c10d::OpType type, const char* name, const Options& options,
                                    Collective collective) {
    Call call;
    call.type = type;
    call.name = name;
    call.timeout = options.timeout;
    call.awaited = !options.asyncOp;
    call.collective = std::move(collective);
    return call;
  }

  [[nodiscard]] std::chrono::milliseconds timeout_or(std::chrono::milliseconds asked) const;
  WorkPointer run(Call call);

  std::string name_;
  std::shared_ptr<Engine> engine_;  ///< shared with threads that wait for an operation
  std::chrono::milliseconds timeout_;
  std::atomic<std::uint64_t> sequence_{0};
};

/// Returns an all-gather among `size` ranks through `store`, which nothing else may use, and whose errors it throws.
/// For one call.
[[nodiscard]] BootstrapAllGather bootstrap_over(c10::intrusive_ptr<c10d::Store> store, int rank, int size);

/// Makes `engine` the backend of `group` for CPU tensors, and its default.
void set_engine(c10d::ProcessGroup& group, const std::string& name, c10d::ProcessGroup::BackendType type,
                std::unique_ptr<Engine> engine, std::chrono::milliseconds timeout);

}  // namespace rollcall::process_group

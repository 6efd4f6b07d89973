#include "trainer/distributed/backends/c10d/engine_backend.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "trainer/distributed/backends/c10d/tensors.h"

namespace rollcall::process_group {
namespace {

/// An operation of the backend, as its caller sees it. Thread-safe.
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

EngineWork::EngineWork(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> results,
                       std::weak_ptr<Engine> engine)
    : Work(rank, type),
      sequence_(sequence),
      results_(std::move(results)),
      engine_(std::move(engine)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

bool EngineWork::wait(std::chrono::milliseconds timeout) {
  const auto begun = std::chrono::steady_clock::now();
  if (const std::shared_ptr<Engine> engine = engine_.lock()) {
    engine->help_until([&] {
      return isCompleted() || (timeout != kNoTimeout && std::chrono::steady_clock::now() - begun >= timeout);
    });
  }
  return Work::wait(timeout);
}

void EngineWork::complete(const std::string& failure, int source, const std::function<void()>& finish_results) {
  std::exception_ptr error;
  try {
    TORCH_CHECK_WITH(DistBackendError, failure.empty(), failure);
    if (finish_results) {
      const at::NoGradGuard no_grad;
      finish_results();
    }
  } catch (...) {
    error = std::current_exception();
  }
  source_ = source;
  // The future first: who returns from wait() may ask for it at once.
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
  finish(error);
}

/// What completes a reduction into `staged`.
std::function<void()> finish_reduction(const Staged& staged, const c10d::ReduceOp& operation, int world_size) {
  return [staged, operation, world_size] {
    finish_average(staged.memory, operation, world_size);
    staged.write_back();
  };
}

std::string key_of(int rank) { return "address/" + std::to_string(rank); }

}  // namespace

EngineBackend::EngineBackend(std::string name, std::unique_ptr<Engine> engine, int rank, int world_size,
                             std::chrono::milliseconds timeout)
    : Backend(rank, world_size), name_(std::move(name)), engine_(std::move(engine)), timeout_(timeout) {
  init();
}

c10::intrusive_ptr<c10d::Backend::Options> EngineBackend::getBackendOptions() {
  return c10::make_intrusive<Options>(name_, timeout_);
}

c10d::ErrorType EngineBackend::getError() {
  return engine_->has_failed() ? c10d::ErrorType::REMOTE_ERROR : c10d::ErrorType::SUCCESS;
}

void EngineBackend::abort() { engine_->abort("the group was aborted"); }

void EngineBackend::shutdown() { engine_->abort("the group was shut down"); }

std::chrono::milliseconds EngineBackend::timeout_or(std::chrono::milliseconds asked) const {
  return asked == c10d::kUnsetTimeout ? timeout_ : asked;
}

EngineBackend::WorkPointer EngineBackend::run(Call call) {
  const auto work = c10::make_intrusive<EngineWork>(rank_, call.type, ++sequence_, call.results, engine_);
  Operation operation;
  const at::Tensor& counted = call.output.defined() ? call.output : call.input;
  operation.name =
      name_ + ": " + call.name + (counted.defined() ? " of " + std::to_string(counted.nbytes()) + " bytes" : "");
  operation.timeout = timeout_or(call.timeout);
  operation.awaited = call.awaited;
  operation.collective = std::move(call.collective);
  operation.collective.input = call.input.defined() ? bytes_of(call.input) : nullptr;
  operation.collective.output = call.output.defined() ? bytes_of(call.output) : nullptr;
  operation.collective.element_bytes = counted.defined() ? counted.dtype().itemsize() : 1;
  // The closure keeps the tensors until the engine is through with them.
  operation.done = [work, finish = std::move(call.finish), input = call.input, output = call.output](
                       const std::string& failure, std::uint32_t) { work->complete(failure, -1, finish); };
  engine_->submit(std::move(operation));
  return work;
}

EngineBackend::WorkPointer EngineBackend::send(Tensors& tensors, int peer, int tag) {
  return run_message(c10d::OpType::SEND, tensors, static_cast<std::uint32_t>(peer), tag);
}

EngineBackend::WorkPointer EngineBackend::recv(Tensors& tensors, int peer, int tag) {
  return run_message(c10d::OpType::RECV, tensors, static_cast<std::uint32_t>(peer), tag);
}

EngineBackend::WorkPointer EngineBackend::recvAnysource(Tensors& tensors, int tag) {
  return run_message(c10d::OpType::RECVANYSOURCE, tensors, std::nullopt, tag);
}

EngineBackend::WorkPointer EngineBackend::run_message(c10d::OpType type, Tensors& tensors,
                                                      std::optional<std::uint32_t> peer, int tag) {
  TORCH_CHECK_VALUE(!peer || (*peer < static_cast<std::uint32_t>(size_) && *peer != static_cast<std::uint32_t>(rank_)),
                    "no message from or to rank ", *peer, " of ", size_, " at rank ", rank_);
  const bool sends = type == c10d::OpType::SEND;
  const Staged staged(only(tensors), sends);
  const auto work = c10::make_intrusive<EngineWork>(rank_, type, ++sequence_, tensors, engine_);
  Operation operation;
  operation.name = name_ + (sends ? ": send of " : ": recv of ") + std::to_string(staged.memory.nbytes()) + " bytes";
  operation.timeout = timeout_;
  operation.message = PointToPoint{.sends = sends,
                                   .peer = peer,
                                   .tag = static_cast<std::uint32_t>(tag),
                                   .data = bytes_of(staged.memory),
                                   .bytes = staged.memory.nbytes()};
  const std::function<void()> finish = sends ? std::function<void()>() : [staged] { staged.write_back(); };
  operation.done = [work, staged, finish](const std::string& failure, std::uint32_t source) {
    work->complete(failure, static_cast<int>(source), finish);
  };
  engine_->submit(std::move(operation));
  return work;
}

EngineBackend::WorkPointer EngineBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Staged staged(reducible(only(tensors), options.reduceOp), true);
  Call call = call_of(c10d::OpType::ALLREDUCE, "all_reduce", options,
                      reducing(CollectiveKind::AllReduce, staged.memory, options.reduceOp));
  call.output = staged.memory;
  call.results = tensors;
  call.finish = finish_reduction(staged, options.reduceOp, size_);
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::allreduce_coalesced(Tensors& tensors,
                                                              const c10d::AllreduceCoalescedOptions& options) {
  TORCH_CHECK_VALUE(!tensors.empty(), "no tensors to reduce");
  const at::Tensor flat = packed(tensors);
  const at::Tensor numbers = reducible(flat, options.reduceOp);
  Call call = call_of(c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", options,
                      reducing(CollectiveKind::AllReduce, numbers, options.reduceOp));
  call.output = numbers;
  call.results = tensors;
  call.finish = [flat, numbers, tensors, operation = options.reduceOp, size = size_] {
    finish_average(numbers, operation, size);
    unpack(flat, tensors);
  };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Staged staged(reducible(only(tensors), options.reduceOp), true);
  Call call = call_of(c10d::OpType::REDUCE, "reduce", options,
                      reducing(CollectiveKind::Reduce, staged.memory, options.reduceOp));
  call.collective.root = static_cast<std::uint32_t>(options.rootRank);
  call.output = staged.memory;
  call.results = tensors;
  if (options.rootRank == rank_) {
    call.finish = finish_reduction(staged, options.reduceOp, size_);
  }
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                                                const c10d::ReduceScatterOptions& options) {
  check_whole(input, output, size_);
  const Staged staged(reducible(output, options.reduceOp), false);
  Call call = call_of(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", options,
                      reducing(CollectiveKind::ReduceScatter, staged.memory, options.reduceOp));
  // Where the output lies inside of the input, partial sums would overwrite what is still to be added.
  call.input = output.is_alias_of(input) ? input.clone(at::MemoryFormat::Contiguous) : input.contiguous();
  call.output = staged.memory;
  call.results = {output};
  call.finish = finish_reduction(staged, options.reduceOp, size_);
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                                         const c10d::ReduceScatterOptions& options) {
  at::Tensor output = only(outputs);
  TORCH_CHECK_VALUE(inputs.size() == 1 && inputs[0].size() == static_cast<std::size_t>(size_),
                    "reduce_scatter takes one input for each rank");
  for (const at::Tensor& input : inputs[0]) {
    TORCH_CHECK_VALUE(input.numel() == output.numel(), "reduce_scatter's inputs differ in size from its output");
  }
  at::Tensor input = packed(inputs[0]);
  return reduce_scatter_single(output, input, options);
}

EngineBackend::WorkPointer EngineBackend::reduce_scatter_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                                          const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK_VALUE(!outputs.empty() && outputs.size() == inputs.size(), "as many outputs as inputs, at least one");
  // They run in order, and the first failure ends the group: the last one stands for all.
  WorkPointer last;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    last = reduce_scatter_single(outputs[i], inputs[i], options);
  }
  return last;
}

EngineBackend::WorkPointer EngineBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const Staged staged(only(tensors), true);
  Call call = call_of(c10d::OpType::BROADCAST, "broadcast", options,
                      copying(CollectiveKind::Broadcast, staged.memory.nbytes(), options.rootRank));
  call.output = staged.memory;
  call.results = tensors;
  call.finish = [staged] { staged.write_back(); };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::all_gather_single(at::Tensor& output, at::Tensor& input,
                                                            const c10d::AllgatherOptions& options) {
  check_whole(output, input, size_);
  const Staged staged(output, false);
  Call call =
      call_of(c10d::OpType::_ALLGATHER_BASE, "all_gather", options, copying(CollectiveKind::AllGather, input.nbytes()));
  call.input = input.contiguous();
  call.output = staged.memory;
  call.results = {output};
  call.finish = [staged] { staged.write_back(); };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::all_gather_single_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::AllgatherOptions& options) {
  TORCH_CHECK_VALUE(!outputs.empty() && outputs.size() == inputs.size(), "as many outputs as inputs, at least one");
  // They run in order, and the first failure ends the group: the last one stands for all.
  WorkPointer last;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    last = all_gather_single(outputs[i], inputs[i], options);
  }
  return last;
}

EngineBackend::WorkPointer EngineBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1, "all_gather takes one list of outputs");
  check_list(outputs[0], input, size_);
  Call call =
      call_of(c10d::OpType::ALLGATHER, "all_gather", options, copying(CollectiveKind::AllGather, input.nbytes()));
  call.input = input.contiguous();
  call.output = room_for(input, size_);
  call.results = outputs[0];
  call.finish = [flat = call.output, list = outputs[0]] { unpack(flat, list); };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::gather(TensorLists& outputs, Tensors& inputs,
                                                 const c10d::GatherOptions& options) {
  const at::Tensor& input = only(inputs);
  Call call = call_of(c10d::OpType::GATHER, "gather", options,
                      copying(CollectiveKind::Gather, input.nbytes(), options.rootRank));
  call.input = input.contiguous();
  if (options.rootRank == rank_) {
    TORCH_CHECK_VALUE(outputs.size() == 1, "gather takes one list of outputs on its root");
    check_list(outputs[0], input, size_);
    call.output = room_for(input, size_);
    call.results = outputs[0];
    call.finish = [flat = call.output, list = outputs[0]] { unpack(flat, list); };
  }
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::scatter(Tensors& outputs, TensorLists& inputs,
                                                  const c10d::ScatterOptions& options) {
  const Staged staged(only(outputs), false);
  Call call = call_of(c10d::OpType::SCATTER, "scatter", options,
                      copying(CollectiveKind::Scatter, staged.memory.nbytes(), options.rootRank));
  if (options.rootRank == rank_) {
    TORCH_CHECK_VALUE(inputs.size() == 1, "scatter takes one list of inputs on its root");
    check_list(inputs[0], staged.memory, size_);
    call.input = packed(inputs[0]);
  }
  call.output = staged.memory;
  call.results = outputs;
  call.finish = [staged] { staged.write_back(); };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::all_to_all_single(at::Tensor& output, at::Tensor& input,
                                                            std::vector<std::int64_t>& output_rows,
                                                            std::vector<std::int64_t>& input_rows,
                                                            const c10d::AllToAllOptions& options) {
  check_tensor(input);
  check_tensor(output);
  const Staged staged(output, false);
  Call call = call_of(c10d::OpType::ALLTOALL_BASE, "all_to_all", options,
                      exchanging(input, input_rows, output, output_rows, size_));
  call.input = input.contiguous();
  call.output = staged.memory;
  call.results = {output};
  call.finish = [staged] { staged.write_back(); };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                                   const c10d::AllToAllOptions& options) {
  TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(size_) && inputs.size() == outputs.size(),
                    "all_to_all takes one input and one output for each rank");
  Call call = call_of(c10d::OpType::ALLTOALL, "all_to_all", options, exchanging(inputs, outputs));
  call.input = packed(inputs);
  call.output = at::empty_like(packed(outputs));
  call.results = outputs;
  call.finish = [flat = call.output, outputs] { unpack(flat, outputs); };
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::barrier(const c10d::BarrierOptions& options) {
  Call call = call_of(c10d::OpType::BARRIER, "barrier", options, copying(CollectiveKind::Barrier, 0));
  return run(std::move(call));
}

Exchange exchange_over(c10::intrusive_ptr<c10d::Store> store, int rank, int size) {
  return [store = std::move(store), rank, size](const std::string& mine) -> Result<std::vector<std::string>> {
    store->set(key_of(rank), std::vector<std::uint8_t>(mine.begin(), mine.end()));
    std::vector<std::string> all;
    for (int other = 0; other < size; ++other) {
      const std::vector<std::uint8_t> record = store->get(key_of(other));
      all.emplace_back(record.begin(), record.end());
    }
    return all;
  };
}

void set_engine(c10d::ProcessGroup& group, const std::string& name, c10d::ProcessGroup::BackendType type,
                std::unique_ptr<Engine> engine, std::chrono::milliseconds timeout) {
  group.setBackend(c10::DeviceType::CPU, type,
                   c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<EngineBackend>(
                       name, std::move(engine), group.getRank(), group.getSize(), timeout)));
  group.setDefaultBackend(type);
}

}  // namespace rollcall::process_group

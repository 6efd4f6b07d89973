#include "trainer/distributed/backends/c10d/engine_backend.h"

#include <torch/csrc/distributed/c10d/Work.hpp>

namespace rollcall::process_group {
namespace {

// Converts tensors to the bytes that the engine sends. All functions throw c10::Error for invalid arguments.

ElementType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ElementType::Float32;
    case at::kDouble:
      return ElementType::Float64;
    case at::kHalf:
      return ElementType::Float16;
    case at::kBFloat16:
      return ElementType::BFloat16;
    case at::kInt:
      return ElementType::Int32;
    case at::kLong:
      return ElementType::Int64;
    default:
      TORCH_CHECK_TYPE(false, "no reduction of ", type);
  }
}

Reduction reduction_of(const c10d::ReduceOp& operation) {
  const auto asked = static_cast<c10d::ReduceOp::RedOpType>(operation);
  TORCH_CHECK_VALUE(asked == c10d::ReduceOp::SUM || asked == c10d::ReduceOp::MAX, "a reduction is SUM or MAX here");
  return asked == c10d::ReduceOp::SUM ? Reduction::Sum : Reduction::Max;
}

/// Returns the size of one of `world_size` equal parts of `tensor`.
std::size_t equal_part(const at::Tensor& tensor, int world_size) {
  TORCH_CHECK_VALUE(tensor.numel() == 0 || tensor.size(0) % world_size == 0, tensor.size(0),
                    " rows cannot be divided evenly among ", world_size, " ranks");
  return tensor.nbytes() / static_cast<std::size_t>(world_size);
}

/// Returns the size of each rank's rows of `tensor`; equal parts if `rows` is empty.
std::vector<std::size_t> part_bytes(const at::Tensor& tensor, const std::vector<std::int64_t>& rows, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  if (rows.empty()) {
    return std::vector<std::size_t>(ranks, equal_part(tensor, world_size));
  }
  TORCH_CHECK_VALUE(rows.size() == ranks, "as many split sizes as ranks are needed");
  const std::int64_t all = tensor.dim() == 0 ? 1 : tensor.size(0);
  std::vector<std::size_t> bytes;
  std::int64_t sum = 0;
  for (const std::int64_t count : rows) {
    bytes.push_back(all == 0 ? 0 : tensor.nbytes() / static_cast<std::size_t>(all) * static_cast<std::size_t>(count));
    sum += count;
  }
  TORCH_CHECK_VALUE(sum == all, "split sizes add up to ", sum, " of ", all, " rows");
  return bytes;
}

/// Returns the memory of a contiguous tensor.
std::byte* bytes_of(const at::Tensor& tensor) { return static_cast<std::byte*>(tensor.mutable_data_ptr()); }

/// Throws unless `tensor` is contiguous and on the CPU.
void check_tensor(const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(tensor.device().is_cpu(), "a tensor is on ", tensor.device(), ", not on the CPU");
  TORCH_CHECK_VALUE(tensor.layout() == at::kStrided && tensor.is_contiguous(), "a tensor is not contiguous");
}

/// Returns the only one of `tensors`, checked.
const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  TORCH_CHECK_VALUE(tensors.size() == 1, tensors.size(), " tensors where one is expected");
  check_tensor(tensors[0]);
  return tensors[0];
}

/// Makes a reduction of `kind` with parts as large as `part`. Throws if the element type has none.
Collective reducing(CollectiveKind kind, const at::Tensor& part, const c10d::ReduceOp& operation) {
  Collective collective;
  collective.kind = kind;
  collective.bytes = part.nbytes();
  collective.element = element_type(part.scalar_type());
  collective.reduction = reduction_of(operation);
  return collective;
}

/// Makes a collective of `kind` that moves `bytes` of each rank without a reduction.
Collective copying(CollectiveKind kind, std::size_t bytes, std::int64_t root = 0) {
  Collective collective;
  collective.kind = kind;
  collective.bytes = bytes;
  collective.root = static_cast<std::uint32_t>(root);
  return collective;
}

/// Makes the all-to-all of `input` and `output`, which are divided into `rows` of each rank, or equally if they are
/// empty: a caller that passes none states that no rank's parts differ.
Collective all_to_all_of(const at::Tensor& input, const std::vector<std::int64_t>& input_rows, const at::Tensor& output,
                         const std::vector<std::int64_t>& output_rows, int world_size) {
  if (!input_rows.empty() || !output_rows.empty()) {
    Collective collective = copying(CollectiveKind::AllToAll, 0);
    collective.send_bytes = part_bytes(input, input_rows, world_size);
    collective.receive_bytes = part_bytes(output, output_rows, world_size);
    return collective;
  }
  TORCH_CHECK_VALUE(input.nbytes() == output.nbytes(), "equal parts of ", input.nbytes(), " bytes cannot become ",
                    output.nbytes(), " bytes");
  return copying(CollectiveKind::AllToAll, equal_part(input, world_size));
}

/// Allocates memory for one `part` of each rank.
at::Tensor room_for(const at::Tensor& part, int world_size) {
  return at::empty({part.numel() * world_size}, part.options());
}

/// Throws unless `list` has a tensor for each rank, of the size and type of `part`.
void check_list(const std::vector<at::Tensor>& list, const at::Tensor& part, int world_size) {
  TORCH_CHECK_VALUE(list.size() == static_cast<std::size_t>(world_size), list.size(), " tensors for ", world_size,
                    " ranks");
  for (const at::Tensor& tensor : list) {
    check_tensor(tensor);
    TORCH_CHECK_VALUE(tensor.numel() == part.numel() && tensor.scalar_type() == part.scalar_type(),
                      "tensors of the list differ in size or type from this rank's");
  }
}

/// Throws unless `whole` is as large as `world_size` tensors like `part`, and of its type.
void check_whole(const at::Tensor& whole, const at::Tensor& part, int world_size) {
  check_tensor(whole);
  check_tensor(part);
  TORCH_CHECK_TYPE(whole.scalar_type() == part.scalar_type(), "tensors of different types: ", whole.scalar_type(),
                   " and ", part.scalar_type());
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * world_size, "a tensor of ", whole.numel(), " elements is not ",
                    world_size, " times one of ", part.numel());
}

/// Copies `flat`'s elements into `tensors`, one after the other.
void unpack(const at::Tensor& flat, const std::vector<at::Tensor>& tensors) {
  std::int64_t offset = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(flat.narrow(0, offset, tensor.numel()).view(tensor.sizes()));
    offset += tensor.numel();
  }
}

/// An operation of the backend for its caller. Thread-safe.
class EngineWork final : public c10d::Work {
 public:
  EngineWork(int rank, c10d::OpType type, std::uint64_t sequence, std::vector<at::Tensor> results,
             std::weak_ptr<Engine> engine);

  /// Called once by the engine. If `failure` is empty, calls `finish` (may be empty) to complete the results first; an
  /// exception of it is a failure, too.
  void complete(const std::string& failure, const std::function<void()>& finish);

  /// Waits; the waiting thread helps the engine.
  bool wait(std::chrono::milliseconds timeout = kNoTimeout) override;
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }
  std::uint64_t getSequencenumber() const override { return sequence_; }

 private:
  std::uint64_t sequence_;
  std::vector<at::Tensor> results_;
  std::weak_ptr<Engine> engine_;
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

void EngineWork::complete(const std::string& failure, const std::function<void()>& finish_results) {
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
  // The future first: a thread that returns from wait() may ask for it at once.
  if (error) {
    future_->setError(error);
  } else {
    future_->markCompleted(c10::IValue(results_));
  }
  finish(error);
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
  // The closure keeps the tensors until the engine no longer uses them.
  operation.done = [work, finish = std::move(call.finish), input = call.input,
                    output = call.output](const std::string& failure) { work->complete(failure, finish); };
  engine_->submit(std::move(operation));
  return work;
}

EngineBackend::WorkPointer EngineBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const at::Tensor& tensor = only(tensors);
  Call call = call_of(c10d::OpType::ALLREDUCE, "all_reduce", options,
                      reducing(CollectiveKind::AllReduce, tensor, options.reduceOp));
  call.output = tensor;
  call.results = tensors;
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                                                const c10d::ReduceScatterOptions& options) {
  check_whole(input, output, size_);
  TORCH_CHECK_VALUE(!output.is_alias_of(input), "partial sums in the output would overwrite what is still to be added");
  Call call = call_of(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", options,
                      reducing(CollectiveKind::ReduceScatter, output, options.reduceOp));
  call.input = input;
  call.output = output;
  call.results = {output};
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const at::Tensor& tensor = only(tensors);
  Call call = call_of(c10d::OpType::BROADCAST, "broadcast", options,
                      copying(CollectiveKind::Broadcast, tensor.nbytes(), options.rootRank));
  call.output = tensor;
  call.results = tensors;
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::all_gather_single(at::Tensor& output, at::Tensor& input,
                                                            const c10d::AllgatherOptions& options) {
  check_whole(output, input, size_);
  Call call =
      call_of(c10d::OpType::_ALLGATHER_BASE, "all_gather", options, copying(CollectiveKind::AllGather, input.nbytes()));
  call.input = input;
  call.output = output;
  call.results = {output};
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::allgather(TensorLists& outputs, Tensors& inputs,
                                                    const c10d::AllgatherOptions& options) {
  const at::Tensor& input = only(inputs);
  TORCH_CHECK_VALUE(outputs.size() == 1, "all_gather takes one list of outputs");
  check_list(outputs[0], input, size_);
  Call call =
      call_of(c10d::OpType::ALLGATHER, "all_gather", options, copying(CollectiveKind::AllGather, input.nbytes()));
  call.input = input;
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
  call.input = input;
  if (options.rootRank == rank_) {
    TORCH_CHECK_VALUE(outputs.size() == 1, "gather takes one list of outputs on its root");
    check_list(outputs[0], input, size_);
    call.output = room_for(input, size_);
    call.results = outputs[0];
    call.finish = [flat = call.output, list = outputs[0]] { unpack(flat, list); };
  }
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::all_to_all_single(at::Tensor& output, at::Tensor& input,
                                                            std::vector<std::int64_t>& output_rows,
                                                            std::vector<std::int64_t>& input_rows,
                                                            const c10d::AllToAllOptions& options) {
  check_tensor(input);
  check_tensor(output);
  Call call = call_of(c10d::OpType::ALLTOALL_BASE, "all_to_all", options,
                      all_to_all_of(input, input_rows, output, output_rows, size_));
  call.input = input;
  call.output = output;
  call.results = {output};
  return run(std::move(call));
}

EngineBackend::WorkPointer EngineBackend::barrier(const c10d::BarrierOptions& options) {
  Call call = call_of(c10d::OpType::BARRIER, "barrier", options, copying(CollectiveKind::Barrier, 0));
  return run(std::move(call));
}

BootstrapAllGather bootstrap_over(c10::intrusive_ptr<c10d::Store> store, int rank, int size) {
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

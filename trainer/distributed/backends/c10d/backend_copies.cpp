#include "trainer/distributed/backends/c10d/backend.h"
#include "trainer/distributed/backends/c10d/tensors.h"

namespace rollcall::process_group {
namespace {

/// A collective of `kind` that only moves bytes, `bytes` of each rank.
Collective copying(CollectiveKind kind, std::size_t bytes, std::int64_t root = 0) {
  Collective collective;
  collective.kind = kind;
  collective.bytes = bytes;
  collective.root = static_cast<std::uint32_t>(root);
  return collective;
}

/// An all-to-all of parts that may differ; bytes by rank.
Collective exchanging(std::vector<std::size_t> send_bytes, std::vector<std::size_t> receive_bytes) {
  Collective collective = copying(CollectiveKind::AllToAll, 0);
  collective.send_bytes = std::move(send_bytes);
  collective.receive_bytes = std::move(receive_bytes);
  return collective;
}

/// The bytes of one of `world_size` equal parts of `tensor`.
std::size_t equal_part(const at::Tensor& tensor, int world_size) {
  TORCH_CHECK_VALUE(tensor.numel() == 0 || tensor.size(0) % world_size == 0, tensor.size(0),
                    " rows cannot be divided evenly among ", world_size, " ranks");
  return tensor.nbytes() / static_cast<std::size_t>(world_size);
}

/// The bytes of each rank's rows of `tensor`; equal parts where `rows` is empty.
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

/// The all-to-all of `input` and `output`, which are divided into `rows` of each rank, or where there are none equally:
/// a caller that gives none says that nobody's parts differ.
Collective exchange_of(const at::Tensor& input, const std::vector<std::int64_t>& input_rows, const at::Tensor& output,
                       const std::vector<std::int64_t>& output_rows, int world_size) {
  if (!input_rows.empty() || !output_rows.empty()) {
    return exchanging(part_bytes(input, input_rows, world_size), part_bytes(output, output_rows, world_size));
  }
  TORCH_CHECK_VALUE(input.nbytes() == output.nbytes(), "equal parts of ", input.nbytes(), " bytes cannot become ",
                    output.nbytes(), " bytes");
  return copying(CollectiveKind::AllToAll, equal_part(input, world_size));
}

std::vector<std::size_t> bytes_of_each(const std::vector<at::Tensor>& tensors) {
  std::vector<std::size_t> bytes;
  for (const at::Tensor& tensor : tensors) {
    bytes.push_back(tensor.nbytes());
  }
  return bytes;
}

/// Memory for as many `part`s as there are ranks.
at::Tensor room_for(const at::Tensor& part, int world_size) {
  return at::empty({part.numel() * world_size}, part.options());
}

void check_list(const std::vector<at::Tensor>& list, const at::Tensor& part, int world_size) {
  TORCH_CHECK_VALUE(list.size() == static_cast<std::size_t>(world_size), list.size(), " tensors for ", world_size,
                    " ranks");
  for (const at::Tensor& tensor : list) {
    check_tensor(tensor);
    TORCH_CHECK_VALUE(tensor.numel() == part.numel() && tensor.scalar_type() == part.scalar_type(),
                      "tensors of the list differ in size or type from this rank's");
  }
}

}  // namespace

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
  check_whole(output, input);
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
                      exchange_of(input, input_rows, output, output_rows, size_));
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
  Call call =
      call_of(c10d::OpType::ALLTOALL, "all_to_all", options, exchanging(bytes_of_each(inputs), bytes_of_each(outputs)));
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

}  // namespace rollcall::process_group

#include "trainer/distributed/backends/c10d/backend.h"
#include "trainer/distributed/backends/c10d/tensors.h"

namespace rollcall::process_group {
namespace {

/// What completes a reduction into `staged`.
std::function<void()> finish_reduction(const Staged& staged, const c10d::ReduceOp& operation, int world_size) {
  return [staged, operation, world_size] {
    finish_average(staged.memory, operation, world_size);
    staged.write_back();
  };
}

}  // namespace

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
  check_whole(input, output);
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

}  // namespace rollcall::process_group

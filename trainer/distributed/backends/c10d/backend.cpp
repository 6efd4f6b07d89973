#include "trainer/distributed/backends/c10d/backend.h"

#include "trainer/distributed/backends/c10d/tensors.h"
#include "trainer/distributed/backends/c10d/work.h"

namespace rollcall::process_group {

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

void EngineBackend::check_whole(const at::Tensor& whole, const at::Tensor& part) const {
  check_tensor(whole);
  check_tensor(part);
  TORCH_CHECK_TYPE(whole.scalar_type() == part.scalar_type(), "tensors of different types: ", whole.scalar_type(),
                   " and ", part.scalar_type());
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * size_, "a tensor of ", whole.numel(), " elements is not ", size_,
                    " times one of ", part.numel());
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
  operation.collective.element_bytes = counted.defined() ? counted.element_size() : 1;
  // The closure keeps the tensors until the engine is through with them.
  operation.done = [work, finish = std::move(call.finish), input = call.input, output = call.output](
                       const std::string& failure, std::uint32_t) { work->complete(failure, -1, finish); };
  engine_->submit(std::move(operation));
  return work;
}

}  // namespace rollcall::process_group

#include "trainer/process_group/ucx/c10d/backend.h"

#include "trainer/process_group/ucx/c10d/tensors.h"
#include "trainer/process_group/ucx/c10d/work.h"

namespace rollcall::process_group::ucx {

UcxBackend::UcxBackend(std::unique_ptr<Engine> engine, int rank, int world_size, std::chrono::milliseconds timeout)
    : Backend(rank, world_size), engine_(std::move(engine)), timeout_(timeout) {
  init();
}

c10::intrusive_ptr<c10d::Backend::Options> UcxBackend::getBackendOptions() {
  return c10::make_intrusive<Options>("ucx", timeout_);
}

c10d::ErrorType UcxBackend::getError() {
  return engine_->has_failed() ? c10d::ErrorType::REMOTE_ERROR : c10d::ErrorType::SUCCESS;
}

void UcxBackend::abort() { engine_->abort("the group was aborted"); }

void UcxBackend::shutdown() { engine_->abort("the group was shut down"); }

PlanContext UcxBackend::plan_context(std::size_t element_bytes) const {
  return PlanContext{.rank = static_cast<std::uint32_t>(rank_),
                     .world_size = static_cast<std::uint32_t>(size_),
                     .element_bytes = element_bytes};
}

std::chrono::milliseconds UcxBackend::timeout_or(std::chrono::milliseconds asked) const {
  return asked == c10d::kUnsetTimeout ? timeout_ : asked;
}

void UcxBackend::check_whole(const at::Tensor& whole, const at::Tensor& part) const {
  check_tensor(whole);
  check_tensor(part);
  TORCH_CHECK_TYPE(whole.scalar_type() == part.scalar_type(), "ucx: tensors of different types: ", whole.scalar_type(),
                   " and ", part.scalar_type());
  TORCH_CHECK_VALUE(whole.numel() == part.numel() * size_, "ucx: a tensor of ", whole.numel(), " elements is not ",
                    size_, " times one of ", part.numel());
}

UcxBackend::WorkPointer UcxBackend::run(Call call) {
  const auto work = c10::make_intrusive<UcxWork>(rank_, call.type, ++sequence_, call.results, engine_);
  Operation operation;
  const at::Tensor& counted = call.output.defined() ? call.output : call.input;
  operation.name = call.name + (counted.defined() ? " of " + std::to_string(counted.nbytes()) + " bytes" : "");
  operation.timeout = timeout_or(call.timeout);
  operation.awaited = call.awaited;
  operation.plan = std::move(call.plan);
  operation.areas.input = call.input.defined() ? bytes_of(call.input) : nullptr;
  operation.areas.output = call.output.defined() ? bytes_of(call.output) : nullptr;
  operation.combining = call.combining;
  // The closure keeps the tensors until the engine is through with them.
  operation.done = [work, finish = std::move(call.finish), input = call.input, output = call.output](
                       const std::string& failure, std::uint32_t) { work->complete(failure, -1, finish); };
  engine_->submit(std::move(operation));
  return work;
}

}  // namespace rollcall::process_group::ucx

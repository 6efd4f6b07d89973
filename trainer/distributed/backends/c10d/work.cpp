#include "trainer/distributed/backends/c10d/work.h"

namespace rollcall::process_group {

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

}  // namespace rollcall::process_group

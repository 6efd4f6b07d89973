#include "trainer/distributed/backends/c10d/backend.h"
#include "trainer/distributed/backends/c10d/tensors.h"
#include "trainer/distributed/backends/c10d/work.h"

namespace rollcall::process_group {

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

}  // namespace rollcall::process_group

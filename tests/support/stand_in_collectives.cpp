// The stand-in device's collectives.
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/support/stand_in_device.h"
#include "trainer/libtorch_version.h"

namespace rollcall::testing_support::stand_in {
namespace {

std::atomic<std::int64_t> given{0};
std::atomic<std::int64_t> ended{0};

/// What ends waiting for all works of a backend.
struct Abortion {
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false;
};

/// As NCCL's: wait() is the stream's, and the host goes on. One whose peer is lost never ends, until it is aborted,
/// which leaves any values.
class WorkOfStream final : public c10d::Work {
 public:
  /// `tensors`: of the device, that it gives values to.
  WorkOfStream(const c10::intrusive_ptr<c10d::Work>& inner, std::vector<at::Tensor> tensors,
               std::shared_ptr<Abortion> abortion)
      : state_(std::make_shared<State>(std::move(abortion))), tensors_(std::move(tensors)) {
    given += 1;
    inner->getFuture()->addCallback([state = state_, inner](c10::ivalue::Future& done) {
      const std::lock_guard lock(state->abortion->mutex);
      state->ended_well = !done.hasError();
      ended += state->ended_well ? 1 : 0;
      state->abortion->changed.notify_all();
    });
  }
  bool isCompleted() override {
    const std::lock_guard lock(state_->abortion->mutex);
    return state_->has_ended();
  }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    enqueue([state = state_] { state->wait(); });
    return true;
  }
  /// For the stream's own thread.
  void wait_here() { state_->wait(); }
  void synchronize() override { wait(kNoTimeout); }
  /// Completed: what is enqueued behind it comes after its values.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    future->markCompleted(tensors_);
    return future;
  }
  std::vector<at::Tensor> result() override { return tensors_; }

 private:
  struct State {
    explicit State(std::shared_ptr<Abortion> of_backend) : abortion(std::move(of_backend)) {}
    [[nodiscard]] bool has_ended() const { return ended_well || abortion->aborted; }
    void wait() const {
      std::unique_lock lock(abortion->mutex);
      abortion->changed.wait(lock, [&] { return has_ended(); });
    }
    const std::shared_ptr<Abortion> abortion;
    bool ended_well = false;  ///< guarded by the abortion's mutex
  };
  const std::shared_ptr<State> state_;
  const std::vector<at::Tensor> tensors_;
};

/// One that a graph carries whenever it is replayed, in its turn.
class CapturedWork final : public c10d::Work {
 public:
  explicit CapturedWork(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}
  bool isCompleted() override { TORCH_CHECK(false, "stand-in: the host looks at work that is captured"); }
  bool wait(std::chrono::milliseconds /*timeout*/) override { return true; }
  void synchronize() override {}
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    future->markCompleted(tensors_);
    return future;
  }
  std::vector<at::Tensor> result() override { return tensors_; }

 private:
  const std::vector<at::Tensor> tensors_;
};

/// The device's collectives, by another backend on the memory behind its tensors.
class Collectives final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using Work = c10::intrusive_ptr<c10d::Work>;

  explicit Collectives(c10::intrusive_ptr<c10d::Backend> inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return "stand-in"; }
  void abort() override {
    const std::lock_guard lock(abortion_->mutex);
    abortion_->aborted = true;
    abortion_->changed.notify_all();
  }

  Work broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return carry(tensors,
                 [this, values = begin(tensors), options]() mutable { return inner_->broadcast(values, options); });
  }
  Work allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return carry(tensors,
                 [this, values = begin(tensors), options]() mutable { return inner_->allreduce(values, options); });
  }
  Work gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    std::vector<Tensors> received;
    for (const Tensors& of_rank : outputs) {
      received.push_back(begin(of_rank));
    }
    return carry(
        outputs.empty() ? Tensors{} : outputs.front(),
        [this, received, sent = begin(inputs), options]() mutable { return inner_->gather(received, sent, options); });
  }
  Work all_gather_single(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return carry({output}, [this, received = begin(output), sent = begin(input), options]() mutable {
      return inner_->all_gather_single(received, sent, options);
    });
  }
  Work all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                         std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    return carry({output},
                 [this, received = begin(output), sent = begin(input), output_sizes, input_sizes, options]() mutable {
                   return inner_->all_to_all_single(received, sent, output_sizes, input_sizes, options);
                 });
  }

 private:
  /// What `issue` begins, now or, while the stream is captured, whenever its graph is replayed.
  template <typename Issue>
  Work carry(Tensors tensors, Issue issue) const {
    if (!is_captured()) {
      return c10::make_intrusive<WorkOfStream>(issue(), std::move(tensors), abortion_);
    }
    enqueue([issue, tensors, abortion = abortion_]() mutable { WorkOfStream(issue(), tensors, abortion).wait_here(); });
    return c10::make_intrusive<CapturedWork>(std::move(tensors));
  }
  /// The values behind a tensor of the device, which stays alive with them.
  static at::Tensor begin(const at::Tensor& tensor) {
    return at::from_blob(
        values_of(tensor).mutable_data_ptr(), tensor.sizes(), tensor.strides(), [tensor](void*) {},
        at::TensorOptions(tensor.scalar_type()));
  }
  static Tensors begin(const Tensors& tensors) {
    Tensors values;
    for (const at::Tensor& tensor : tensors) {
      values.push_back(begin(tensor));
    }
    return values;
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  const std::shared_ptr<Abortion> abortion_ = std::make_shared<Abortion>();
};

}  // namespace

std::string flight_record() {
  return "{\"given\": " + std::to_string(given) + ", \"ended\": " + std::to_string(ended) + "}";
}

void add_backend(c10d::ProcessGroup& group) {
  group.setBackend(
      c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
      c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<Collectives>(group.getBackend(c10::DeviceType::CPU))));
}

}  // namespace rollcall::testing_support::stand_in

// The stand-in device's collectives.
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

#include "tests/support/stand_in_device.h"
#include "tests/support/stand_in_streams.h"
#include "trainer/libtorch_version.h"
#include "trainer/streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

std::atomic<std::int64_t> given{0};
std::atomic<std::int64_t> ended{0};
std::atomic<std::int64_t> all_gathers{0};
std::atomic<std::int64_t> aborts_begun{0};
std::atomic<std::int64_t> aborts_ended{0};
std::atomic<std::int64_t> reduce_scatters_given{0};
std::atomic<std::int64_t> reduce_scatters_arrived{0};

std::int64_t number_of(const char* variable) {
  const char* const set = std::getenv(variable);
  return set == nullptr ? std::numeric_limits<std::int64_t>::max() : std::atoll(set);
}
/// STAND_IN_FAILS: with which collective the device fails, as a GPU does: whoever asks it something is told.
bool fails() {
  static const std::int64_t first = number_of("STAND_IN_FAILS");
  return given >= first;
}
/// STAND_IN_FAILS_IN_CAPTURE: it does while a step is captured.
bool fails_in_capture() { return std::getenv("STAND_IN_FAILS_IN_CAPTURE") != nullptr; }
[[noreturn]] void tell_of_failure() {
  constexpr int kContained = 226;  // as of cudaErrorContained
  throw c10::AcceleratorError({__func__, __FILE__, __LINE__}, kContained,
                              "stand-in: the device has fallen off the bus");
}
/// STAND_IN_DISCONNECTS: with which one a connection is lost, of which no work says anything.
bool is_disconnected() {
  static const std::int64_t first = number_of("STAND_IN_DISCONNECTS");
  return given >= first;
}

/// What ends waiting for all works of a backend.
struct Abortion {
  std::mutex mutex;
  std::condition_variable changed;
  bool aborted = false;
};

/// One collective of the backend that carries it.
class Carried {
 public:
  Carried(const c10::intrusive_ptr<c10d::Work>& work, std::shared_ptr<Abortion> abortion)
      : state_(std::make_shared<State>(std::move(abortion))) {
    given += 1;
    work->getFuture()->addCallback([state = state_, work](c10::ivalue::Future& done) {
      const std::lock_guard lock(state->abortion->mutex);
      state->ended_well = !done.hasError();
      ended += state->ended_well ? 1 : 0;
      state->abortion->changed.notify_all();
    });
  }
  [[nodiscard]] bool has_ended() const {
    const std::lock_guard lock(state_->abortion->mutex);
    return state_->ended_well || state_->abortion->aborted;
  }
  /// Waits for its end; whether it has values. One whose peer is lost never ends, until it is aborted.
  [[nodiscard]] bool arrives() const {
    std::unique_lock lock(state_->abortion->mutex);
    state_->abortion->changed.wait(lock, [&] { return state_->ended_well || state_->abortion->aborted; });
    return state_->ended_well;
  }

 private:
  struct State {
    explicit State(std::shared_ptr<Abortion> of_backend) : abortion(std::move(of_backend)) {}
    const std::shared_ptr<Abortion> abortion;
    bool ended_well = false;  ///< guarded by the abortion's mutex
  };
  std::shared_ptr<State> state_;
};

/// As NCCL's: wait() is the stream's, and the host goes on. Holds its tensors as NCCL's does (WorkNCCL): what it reads
/// until somebody waits, what it gives values to as long as it lives.
class WorkOfStream final : public c10d::Work {
 public:
  /// `carried`: nothing where a graph carries it.
  WorkOfStream(std::optional<Carried> carried, c10::Event delivered, std::vector<at::Tensor> inputs,
               std::vector<at::Tensor> outputs)
      : carried_(std::move(carried)),
        delivered_(std::move(delivered)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {}
  bool isCompleted() override {
    TORCH_CHECK(carried_, "stand-in: the host looks at work that is captured");
    make_context_of_thread();  // NCCL's asks an event
    if (fails()) {
      tell_of_failure();
    }
    return carried_->has_ended() && !stands_still();
  }
  bool wait(std::chrono::milliseconds /*timeout*/) override {
    delivered_.block(current_stream(delivered_.device()));
    inputs_.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }
  /// Completed: what is enqueued behind it comes after its values.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::ofTensors());
    future->markCompleted(outputs_);
    return future;
  }
  std::vector<at::Tensor> result() override { return outputs_; }

 private:
  std::optional<Carried> carried_;
  c10::Event delivered_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> outputs_;
};

/// By pairs, as FSDP adds on CPUs: so that the results are theirs to the bit.
void add_by_pairs(const at::Tensor& sum, const at::Tensor& rows) {
  for (std::int64_t step = 1; step < rows.size(0); step *= 2) {
    for (std::int64_t i = 0; i + step < rows.size(0); i += 2 * step) {
      rows[i].add_(rows[i + step]);
    }
  }
  sum.copy_(rows[0]);
}

/// The device's collectives, by another backend on copies of its tensors' values. They are on a stream of the group's
/// own, behind what the current one was given. What they read is read at once, so that other ranks go on, and looked at
/// again when the values arrive, which is as late as streams allow: who changed it or used its memory meanwhile, when
/// NCCL may still read it, hears of it.
class Collectives final : public c10d::Backend {
 public:
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;

  explicit Collectives(c10::intrusive_ptr<c10d::Backend> inner)
      : c10d::Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)) {}

  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;
  /// STAND_IN_GROUPS: a file to which each group adds, at its end, how it was let go of.
  ~Collectives() override {
    if (const char* const path = std::getenv("STAND_IN_GROUPS")) {
      std::ofstream(path, std::ios::app) << end_ << '\n';
    }
  }

  const std::string getBackendName() const override { return "stand-in"; }
  /// As ProcessGroupNCCL's, it passes on what the device says.
  void abort() override {
    aborts_begun += 1;
    {
      const std::lock_guard lock(abortion_->mutex);
      end_ = "aborted";
      abortion_->aborted = true;
      abortion_->changed.notify_all();
    }
    wait_for_graphs();
    aborts_ended += 1;
    if (fails()) {
      tell_of_failure();
    }
  }
  /// As ncclCommFinalize: when all ranks do.
  void shutdown() override {
    inner_->barrier({})->wait();
    wait_for_graphs();
    end_ = "shut down";
  }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return in_place(tensors, options.asyncOp,
                    [this, options](Tensors& values) { return inner_->broadcast(values, options); });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return in_place(tensors, options.asyncOp,
                    [this, options](Tensors& values) { return inner_->allreduce(values, options); });
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    const Tensors gathered = outputs.empty() ? Tensors{} : outputs.front();
    const auto issue = [this, options, is_root = !outputs.empty()](Tensors& sent, Tensors& received) {
      std::vector<Tensors> lists = is_root ? std::vector<Tensors>{received} : std::vector<Tensors>{};
      return inner_->gather(lists, sent, options);
    };
    return carry({.read = inputs, .written = gathered, .room = gathered, .async_op = options.asyncOp, .issue = issue});
  }
  WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    all_gathers += 1;
    const auto issue = [this, options](Tensors& sent, Tensors& received) {
      return inner_->all_gather_single(received[0], sent[0], options);
    };
    return carry({.read = {input}, .written = {output}, .room = {output}, .async_op = options.asyncOp, .issue = issue});
  }
  WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override {
    TORCH_CHECK(options.reduceOp == c10d::ReduceOp::SUM, "the stand-in's reduce-scatter adds, and nothing else");
    reduce_scatters_given += 1;
    const auto issue = [this](Tensors& sent, Tensors& received) {
      std::vector<std::int64_t> equal;
      std::vector<std::int64_t> also_equal;
      return inner_->all_to_all_single(received[0], sent[0], equal, also_equal, {});
    };
    const auto deliver = [ranks = getSize()](const Tensors& received, const Tensors& places) {
      add_by_pairs(places[0].view({-1}), received[0].view({ranks, -1}));
      reduce_scatters_arrived += 1;
    };
    return carry({.read = {input},
                  .written = {output},
                  .room = {input},
                  .async_op = options.asyncOp,
                  .issue = issue,
                  .deliver = deliver});
  }
  WorkPtr all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                            std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    const auto issue = [this, output_sizes, input_sizes, options](Tensors& sent, Tensors& received) mutable {
      return inner_->all_to_all_single(received[0], sent[0], output_sizes, input_sizes, options);
    };
    return carry({.read = {input}, .written = {output}, .room = {output}, .async_op = options.asyncOp, .issue = issue});
  }

 private:
  /// What a collective does with tensors of the device, by values in main memory.
  struct Call {
    Tensors read;
    Tensors written;
    Tensors room;  ///< of whose sizes values are received
    /// Unset: as ProcessGroupNCCL, it is on the current stream itself, and there is no Work.
    bool async_op = true;
    std::function<WorkPtr(Tensors& sent, Tensors& received)> issue;
    /// Values that were received, to the places of what is written.
    std::function<void(const Tensors& received, const Tensors& places)> deliver = &put;
  };

  static void put(const Tensors& received, const Tensors& places) {
    for (std::size_t i = 0; i < places.size(); ++i) {
      places[i].copy_(received[i]);
    }
  }
  static Tensors places_of(const Tensors& tensors) {
    Tensors places;
    std::ranges::transform(tensors, std::back_inserter(places), &values_of);
    return places;
  }
  static Tensors copies(const Tensors& places) {
    Tensors values;
    std::ranges::transform(places, std::back_inserter(values), [](const at::Tensor& place) { return place.clone(); });
    return values;
  }
  static Tensors room_for(const Tensors& tensors) {
    Tensors room;
    std::ranges::transform(tensors, std::back_inserter(room), [](const at::Tensor& tensor) {
      return at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
    });
    return room;
  }
  static bool have_changed(const Tensors& places, const Tensors& values) {
    return !std::ranges::equal(places, values, [](const at::Tensor& place, const at::Tensor& value) {
      return std::memcmp(place.const_data_ptr(), value.const_data_ptr(), value.nbytes()) == 0;
    });
  }

  template <typename Issue>
  WorkPtr in_place(const Tensors& tensors, bool async_op, const Issue& issue) {
    const auto on_copies = [issue](Tensors& sent, Tensors& received) {
      received = copies(sent);
      return issue(received);
    };
    return carry({.read = tensors, .written = tensors, .room = {}, .async_op = async_op, .issue = on_copies});
  }

  WorkPtr carry(const Call& call) {
    const auto guard = on_device_of({call.read, call.written});
    TORCH_CHECK(device() == stream_.device(), "stand-in: a collective of ", stream_.device(), " is given tensors of ",
                device());
    return is_captured() ? captured(call) : begun(call);
  }
  WorkPtr begun(const Call& call) {
    const Tensors read = places_of(call.read);
    Tensors sent = copies(read);
    Tensors received = room_for(call.room);
    const WorkPtr inner = call.issue(sent, received);
    const Carried carried(inner, abortion_);
    return of_stream(call, carried, [=, deliver = call.deliver, written = places_of(call.written)] {
      if (!carried.arrives()) {
        return;  // any values
      }
      const torch::NoGradGuard no_grad;
      TORCH_CHECK(!have_changed(read, sent),
                  "stand-in: what a collective may still read was changed, or its memory used");
      deliver(received, written);
    });
  }
  /// All of it happens whenever the graph is replayed, in its turn.
  WorkPtr captured(const Call& call) {
    if (fails_in_capture()) {
      tell_of_failure();
    }
    streams().hold_in_capture(held_by_graphs_);
    return of_stream(call, std::nullopt,
                     [read = places_of(call.read), written = places_of(call.written), room = room_for(call.room),
                      issue = call.issue, deliver = call.deliver, abortion = abortion_] {
                       const torch::NoGradGuard no_grad;
                       Tensors sent = copies(read);
                       Tensors received = copies(room);
                       if (Carried(issue(sent, received), abortion).arrives()) {
                         deliver(received, written);
                       }
                     });
  }
  /// As NCCL's commReclaim, for as long as a graph with one of its collectives lives (localPersistentRefs).
  void wait_for_graphs() const {
    while (held_by_graphs_.use_count() > 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  WorkPtr of_stream(const Call& call, std::optional<Carried> carried, std::function<void()> work) {
    if (!call.async_op) {
      enqueue(std::move(work));
      return {};
    }
    order_after(stream_, current_stream(device()));
    const c10::StreamGuard guard(stream_);
    enqueue(std::move(work));
    c10::Event delivered(device().type());
    delivered.record(stream_);
    return c10::make_intrusive<WorkOfStream>(std::move(carried), std::move(delivered), call.read, call.written);
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  const c10::Stream stream_ = new_stream(device());
  const std::shared_ptr<Abortion> abortion_ = std::make_shared<Abortion>();
  const std::shared_ptr<int> held_by_graphs_ = std::make_shared<int>();
  std::string end_ = "left open";
};

}  // namespace

std::string health_check(c10d::Backend& /*backend*/) {
  return is_disconnected() ? "stand-in: a connection was lost" : "";
}

std::string flight_record() {
  return "{\"given\": " + std::to_string(given) + ", \"ended\": " + std::to_string(ended) + "}";
}

std::int64_t all_gathers_given() { return all_gathers; }

Aborts aborts() { return {.begun = aborts_begun, .ended = aborts_ended}; }

ReduceScatters reduce_scatters() { return {reduce_scatters_given, reduce_scatters_arrived}; }

void add_backend(c10d::ProcessGroup& group) {
  group.setBackend(
      c10::DeviceType::PrivateUse1, c10d::ProcessGroup::BackendType::CUSTOM,
      c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<Collectives>(group.getBackend(c10::DeviceType::CPU))));
}

}  // namespace rollcall::testing_support::stand_in

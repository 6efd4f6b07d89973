#include "trainer/distributed/watchdog/watchdog.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <atomic>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <utility>

#include "trainer/distributed/errors/exceptions.h"
#include "trainer/distributed/watchdog/captured_collectives.h"
#include "trainer/distributed/watchdog/device_connections.h"
#include "trainer/distributed/watchdog/pending_collectives.h"
#include "trainer/distributed/watchdog/watched_work.h"

namespace rollcall::process_group {
namespace {

using WorkPtr = c10::intrusive_ptr<c10d::Work>;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;

std::string sizes_of(const Tensors& tensors) {
  std::ostringstream text;
  for (const at::Tensor& tensor : tensors) {
    text << (text.tellp() > 0 ? " " : "") << tensor.sizes();
  }
  return text.str();
}

/// Describes a call whose `tensors` must have the same sizes and type on every rank.
CollectiveCall call_of(const char* operation, const Tensors& tensors, std::string details = "") {
  CollectiveCall call;
  call.operation = operation;
  call.sizes = sizes_of(tensors);
  call.details = std::move(details);
  for (const at::Tensor& tensor : tensors) {
    call.type = c10::toString(tensor.scalar_type());
    call.bytes += static_cast<std::int64_t>(tensor.nbytes());
  }
  return call;
}

/// Describes a call whose tensors may differ in size between ranks.
CollectiveCall call_of_any_size(const char* operation, const Tensors& tensors) {
  CollectiveCall call = call_of(operation, tensors);
  call.sizes.clear();
  return call;
}

std::string name_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return "sum";
    case c10d::ReduceOp::AVG:
      return "mean";
    case c10d::ReduceOp::PRODUCT:
      return "product";
    case c10d::ReduceOp::MIN:
      return "minimum";
    case c10d::ReduceOp::MAX:
      return "maximum";
    default:
      return "operator " + std::to_string(static_cast<int>(static_cast<c10d::ReduceOp::RedOpType>(op)));
  }
}

/// Returns the calling thread's device of that type; unset for the host.
std::optional<c10::Device> device_of(c10::DeviceType type) {
  return type == c10::kCPU ? std::nullopt : std::optional(c10::impl::VirtualGuardImpl(type).getDevice());
}

bool is_gloo(const c10d::Backend& backend) { return backend.getBackendName() == "gloo"; }

class WatchedBackend final : public c10d::Backend {
 public:
  /// `device`: whose tensors it carries; unset for the host's.
  WatchedBackend(c10::intrusive_ptr<c10d::Backend> inner, std::shared_ptr<Watchdog> watchdog,
                 std::optional<c10::Device> device = std::nullopt, HealthCheck health_check = nullptr)
      : c10d::Backend(inner->getRank(), inner->getSize()),
        inner_(std::move(inner)),
        watchdog_(std::move(watchdog)),
        device_(device),
        connections_(device ? std::make_shared<DeviceConnections>(inner_, *device, health_check) : nullptr) {
    if (device) {
      watchdog_->membership().when_devices_are_aborted([connections = std::weak_ptr(connections_)] {
        if (const auto alive = connections.lock()) {
          alive->begin_abort();
        }
      });
    }
  }

  WatchedBackend(const WatchedBackend&) = delete;
  WatchedBackend& operator=(const WatchedBackend&) = delete;
  ~WatchedBackend() override {
    const bool gives_up = watchdog_->gives_up();
    const bool ended_well = watchdog_->ended_well();
    watchdog_->stop();  // first: ranks that notice the closed connection then find the reason in the store
    if (device_ && ended_well) {
      connections_->shut_down();
    } else if (device_) {
      watchdog_->membership().abort_devices();
      connections_->abort();
    } else if (gives_up && !is_gloo(*inner_)) {  // Gloo only closes its connections in any case
      abort_host();
    }
  }

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  void setTimeout(std::chrono::milliseconds timeout) override { inner_->setTimeout(timeout); }
  uint64_t getSequenceNumberForGroup() override { return watchdog_->issued(); }
  std::shared_ptr<c10::Allocator> getMemAllocator() override { return inner_->getMemAllocator(); }
  c10d::ErrorType getError() override { return inner_->getError(); }
  /// Watches the collectives of this group in a launched graph as one collective, whose state `work` shows.
  void watch_replay(const WorkPtr& work, std::chrono::duration<double> own) {
    if (const std::optional<Error> failure = device_failure()) {
      throw CollectiveFailure(*failure);
    }
    CollectiveCall call = call_of("step's graph", {});
    watchdog_->begin(call);
    const auto since = std::chrono::steady_clock::now();
    watchdog_->watch({.work = work,
                      .collective = WatchedCollective::of_device(watchdog_, call, since, /*ends_device=*/true),
                      .device = *device_,
                      .health_check = [connections = connections_] { return connections->find_problem(); },
                      .own = std::chrono::duration_cast<std::chrono::milliseconds>(own)});
  }
  [[nodiscard]] const c10::intrusive_ptr<c10d::Backend>& inner() const { return inner_; }
  [[nodiscard]] const std::shared_ptr<Watchdog>& watchdog() const { return watchdog_; }
  [[nodiscard]] std::optional<Error> device_failure() const {
    return device_ ? watchdog_->membership().device_failure() : std::nullopt;
  }
  void abort() override { device_ ? connections_->abort() : abort_host(); }
  void shutdown() override { device_ ? connections_->shut_down() : inner_->shutdown(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    return watched(call_of("broadcast", tensors, root(options.rootRank)),
                   [&] { return inner_->broadcast(tensors, taken(options)); });
  }
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    return watched(call_of("all-reduce", tensors, name_of(options.reduceOp)),
                   [&] { return inner_->allreduce(tensors, taken(options)); });
  }
  WorkPtr allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    return watched(call_of("all-gather", inputs), [&] { return inner_->allgather(outputs, inputs, taken(options)); });
  }
  WorkPtr all_gather_single(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    return watched(call_of("all-gather", {input}),
                   [&] { return inner_->all_gather_single(output, input, taken(options)); });
  }
  WorkPtr gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return watched(call_of("gather", inputs, root(options.rootRank)),
                   [&] { return inner_->gather(outputs, inputs, taken(options)); });
  }
  WorkPtr reduce_scatter_single(at::Tensor& output, at::Tensor& input,
                                const c10d::ReduceScatterOptions& options) override {
    return watched(
        call_of("reduce-scatter", {output}, name_of(options.reduceOp)),
        [&] { return inner_->reduce_scatter_single(output, input, taken(options)); }, kNoFuture);
  }
  WorkPtr all_to_all_single(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_sizes,
                            std::vector<std::int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    const bool equal = output_sizes.empty() && input_sizes.empty();
    return watched(equal ? call_of("all-to-all", {input}) : call_of_any_size("all-to-all", {input}),
                   [&] { return inner_->all_to_all_single(output, input, output_sizes, input_sizes, taken(options)); });
  }
  WorkPtr barrier(const c10d::BarrierOptions& options) override {
    return watched(call_of("barrier", {}), [&] { return inner_->barrier(taken(options)); });
  }

 private:
  /// For Gloo's reduce-scatter, which is an all-reduce whose Work has no future.
  static constexpr bool kNoFuture = false;

  /// Returns what the backend is given. A device's is asked for a Work in any case, which the watchdog watches: with
  /// asyncOp unset ProcessGroupNCCL::collective enqueues on the current stream and returns null.
  template <typename Options>
  [[nodiscard]] Options taken(Options options) const {
    options.asyncOp = options.asyncOp || device_.has_value();
    return options;
  }
  [[nodiscard]] std::string root(std::int64_t rank) const {
    return "root " + std::to_string(watchdog_->names().number(static_cast<std::uint32_t>(rank)));
  }

  void abort_host() {
    try {
      inner_->abort();
    } catch (const std::exception&) {  // the group ends in any case
    }
  }

  template <typename Issue>
  WorkPtr watched(CollectiveCall call, const Issue& issue, bool has_future = true) {
    if (const std::optional<Error> failure = device_failure()) {
      throw CollectiveFailure(*failure);
    }
    watchdog_->begin(call);
    RecordedSpan span = begin_span(device_ ? "enqueue: " : "collective: ", call, inner_->getBackendName());
    WorkPtr work = issue();
    if (device_ && CapturedCollectives::add(*this, [self = c10::intrusive_ptr<WatchedBackend>::reclaim_copy(this)](
                                                       const WorkPtr& replay, std::chrono::duration<double> own) {
          self->watch_replay(replay, own);
        })) {
      watchdog_->end(call);
      return work;
    }
    if (device_) {
      span.reset();  // nothing on the host knows when the device begins and ends it: NCCL's future is complete now
    } else if (span && has_future) {
      work->getFuture()->addCallback([span](c10::ivalue::Future& /*done*/) { span->end(); });
    }
    const auto waiting = device_                          ? WatchedWork::IsOfAStream
                         : has_future && is_gloo(*inner_) ? WatchedWork::MayNotEnd
                                                          : WatchedWork::Ends;
    return c10::make_intrusive<WatchedWork>(std::move(work), watchdog_, std::move(call), waiting, std::move(span),
                                            device_);
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  std::shared_ptr<Watchdog> watchdog_;
  const std::optional<c10::Device> device_;
  const std::shared_ptr<DeviceConnections> connections_;  ///< null without a device
};

/// The work of connecting the devices, by a thread that may wait for ever.
class Connecting final : public c10d::Work {
 public:
  bool isCompleted() override { return ended_; }
  [[nodiscard]] const std::exception_ptr& failure() const { return failure_; }
  void run(const std::function<void()>& connect) {
    try {
      connect();
    } catch (...) {
      failure_ = std::current_exception();
    }
    ended_ = true;
  }

 private:
  std::exception_ptr failure_;  ///< final once ended_
  std::atomic<bool> ended_{false};
};

}  // namespace

std::optional<Error> device_failure_of(const c10::intrusive_ptr<c10d::ProcessGroup>& group) {
  for (const c10::Device& device : group ? group->getDeviceTypes() : std::vector<c10::Device>()) {
    const auto backend = c10::dynamic_intrusive_pointer_cast<WatchedBackend>(group->getBackend(device.type()));
    if (std::optional<Error> failure = backend ? backend->device_failure() : std::nullopt) {
      return failure;
    }
  }
  return std::nullopt;
}

c10::intrusive_ptr<c10d::Backend> unwatched_backend(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                                    c10::DeviceType type) {
  const c10::intrusive_ptr<c10d::Backend> backend = group->getBackend(type);
  const auto watched = c10::dynamic_intrusive_pointer_cast<WatchedBackend>(backend);
  return watched ? watched->inner() : backend;
}

c10::intrusive_ptr<c10d::ProcessGroup> watch(const c10::intrusive_ptr<c10d::ProcessGroup>& group,
                                             const c10::intrusive_ptr<c10d::Store>& store,
                                             const WatchdogOptions& options) {
  const auto watchdog = std::make_shared<Watchdog>(store, options);
  auto watched = c10::make_intrusive<c10d::ProcessGroup>(store, group->getRank(), group->getSize());
  for (const c10::Device& device : group->getDeviceTypes()) {
    const c10::intrusive_ptr<c10d::Backend> inner = group->getBackend(device.type());
    watched->setBackend(device.type(), c10d::ProcessGroup::strToBackendType(inner->getBackendName()),
                        c10::intrusive_ptr<c10d::Backend>(
                            c10::make_intrusive<WatchedBackend>(inner, watchdog, device_of(device.type()))));
  }
  watched->setDefaultBackend(group->getBackendType());
  watched->setGroupName(group->getGroupName());
  return watched;
}

void watch_connecting(c10d::ProcessGroup& watched, c10::DeviceType type, std::function<void()> connect) {
  const auto of_hosts = c10::dynamic_intrusive_pointer_cast<WatchedBackend>(watched.getBackend(c10::kCPU));
  const std::shared_ptr<Watchdog>& watchdog = of_hosts->watchdog();
  CollectiveCall call = call_of("connecting of devices", {});
  watchdog->begin(call);
  const auto connecting = c10::make_intrusive<Connecting>();
  const auto collective =
      WatchedCollective::of_device(watchdog, call, std::chrono::steady_clock::now(), /*ends_device=*/false);
  const c10::Device device = *device_of(type);
  watchdog->watch({.work = connecting, .collective = collective, .device = device});
  std::thread([connecting, device, connect = std::move(connect)] {
    connecting->run([&] {
      const c10::DeviceGuard guard(device);
      connect();
    });
  }).detach();
  collective->future()->waitAndThrow();
  if (connecting->failure()) {  // this rank's own
    std::rethrow_exception(connecting->failure());
  }
}

void disconnect_devices(const c10::intrusive_ptr<c10d::ProcessGroup>& watched) {
  for (const c10::Device& device : watched->getDeviceTypes()) {
    if (device.type() != c10::kCPU) {
      watched->getBackend(device.type())->shutdown();
    }
  }
}

void watch_device(c10d::ProcessGroup& watched, c10d::ProcessGroup& group, c10::DeviceType type,
                  HealthCheck health_check) {
  const auto of_hosts = c10::dynamic_intrusive_pointer_cast<WatchedBackend>(watched.getBackend(c10::kCPU));
  const c10::intrusive_ptr<c10d::Backend> inner = group.getBackend(type);
  watched.setBackend(type, c10d::ProcessGroup::strToBackendType(inner->getBackendName()),
                     c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<WatchedBackend>(
                         inner, of_hosts->watchdog(), device_of(type), health_check)));
  watched.setDefaultBackend(group.getBackendType());
}

}  // namespace rollcall::process_group

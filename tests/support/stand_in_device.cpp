#include "tests/support/stand_in_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <unistd.h>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <utility>

#include "tests/support/stand_in_memory.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

std::atomic<std::int64_t> waits_by_asking{0};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  using Moment = Streams::Moment;

  static c10::Device resolved(c10::Device of) { return of.has_index() ? of : device(); }
  static c10::StreamId& current_of(c10::Device of) {
    return current.streams.at(static_cast<std::size_t>(resolved(of).index()));
  }
  static c10::Stream stream(c10::Device of, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, resolved(of), id);
  }

  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device to) const override {
    const c10::Device before = device();
    setDevice(to);
    return before;
  }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device to) const override {
    TORCH_CHECK(to.index() < device_count(), "stand-in: there is no device ", to);
    uncheckedSetDevice(to);
  }
  /// Makes no context: autograd has a thread for each device, and makes it current there.
  void uncheckedSetDevice(c10::Device to) const noexcept override { current.device = resolved(to).index(); }
  c10::DeviceIndex deviceCount() const noexcept override { return device_count(); }

  c10::Stream getStream(c10::Device of) const override { return stream(of, current_of(of)); }
  c10::Stream getDefaultStream(c10::Device of) const override { return stream(of, resolved(of).index()); }
  c10::Stream getStreamFromGlobalPool(c10::Device of, bool /*high*/) const override {
    return stream(of, streams().make(resolved(of).index()));
  }
  c10::Stream exchangeStream(c10::Stream to) const override {
    return stream(to.device(), std::exchange(current_of(to.device()), to.id()));
  }
  bool queryStream(const c10::Stream& of) const override { return streams().reached(streams().now(of.id())); }
  void synchronizeStream(const c10::Stream& of) const override {
    streams().count_host_wait();
    TORCH_CHECK(!streams().captures(of.id()), "stand-in: the host waits for a stream that is captured");
    streams().reach(streams().now(of.id()));
  }

  void record(void** event, const c10::Stream& on, c10::DeviceIndex /*index*/, c10::EventFlag /*flag*/) const override {
    streams().count_event();
    if (*event == nullptr) {
      *event = new Moment();
    }
    make_context_of_thread();
    *static_cast<Moment*>(*event) = streams().now(on.id());
  }
  void block(void* event, const c10::Stream& waiting) const override {
    make_context_of_thread();
    streams().let_wait(waiting.id(), *static_cast<Moment*>(event));
  }
  /// A device goes on by itself: who asks again and again waits for it.
  bool queryEvent(void* event) const override {
    constexpr int kOften = 16;
    make_context_of_thread();
    Moment& moment = *static_cast<Moment*>(event);
    if (streams().reached(moment)) {
      return true;
    }
    if (gettid() != getpid()) {  // the watchdog's thread waits for nothing
      return false;
    }
    moment.asked += 1;
    if (moment.asked == kOften) {
      streams().count_host_wait_for_event();
      waits_by_asking += 1;
    }
    if (moment.asked >= kOften && !stands_still()) {
      streams().reach(moment);
    }
    return false;
  }
  /// STAND_IN_LATE_THREADS: threads beside the main one, as that of saves, come to it later than that goes on.
  void synchronizeEvent(void* event) const override {
    make_context_of_thread();
    streams().count_host_wait_for_event();
    static const bool late = std::getenv("STAND_IN_LATE_THREADS") != nullptr;
    if (late && gettid() != getpid()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    while (stands_still()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    streams().reach(*static_cast<Moment*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    make_context_of_thread();
    delete static_cast<Moment*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return device_count(); }
  /// torch::manual_seed() seeds it: random numbers, as all operators, are the CPU's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*index*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_memory(); }
  bool isPinnedPtr(const void* address) const override { return pinned_block(address) != nullptr; }
};

const bool registered = [] {
  c10::register_privateuse1_backend("stand_in");
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks());  // LibTorch keeps it for ever
  return true;
}();

}  // namespace

bool stands_still() {
  static const char* const first = std::getenv("STAND_IN_STANDS_STILL");
  return first != nullptr && waits_by_asking >= std::atoll(first);
}

c10::Device device() { return {c10::DeviceType::PrivateUse1, current.device}; }

c10::OptionalDeviceGuard on_device_of(std::initializer_list<at::TensorList> tensors) {
  std::optional<at::Device> here;
  for (const at::TensorList& list : tensors) {
    for (const at::Tensor& tensor : list) {
      if (tensor.defined() && !tensor.is_cpu()) {
        TORCH_CHECK(here.value_or(tensor.device()) == tensor.device(),
                    "stand-in: Expected all tensors to be on the same device, but they are on ", *here, " and ",
                    tensor.device());
        here = tensor.device();
      }
    }
  }
  return c10::OptionalDeviceGuard(here);
}

}  // namespace rollcall::testing_support::stand_in

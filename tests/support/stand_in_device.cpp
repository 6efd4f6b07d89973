#include "tests/support/stand_in_device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <utility>

#include "tests/support/stand_in_memory.h"
#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {
namespace {

/// One device; its default stream has the number 0.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  using Moment = Streams::Moment;

  static c10::Stream stream(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, device(), id); }

  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device /*to*/) const override { return device(); }
  c10::Device getDevice() const override { return device(); }
  void setDevice(c10::Device /*to*/) const override {}
  void uncheckedSetDevice(c10::Device /*to*/) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }

  c10::Stream getStream(c10::Device /*of*/) const override { return stream(current); }
  c10::Stream getDefaultStream(c10::Device /*of*/) const override { return stream(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device /*of*/, bool /*high*/) const override {
    return stream(streams().make());
  }
  c10::Stream exchangeStream(c10::Stream to) const override { return stream(std::exchange(current, to.id())); }
  bool queryStream(const c10::Stream& of) const override { return streams().reached(streams().now(of.id())); }
  void synchronizeStream(const c10::Stream& of) const override {
    streams().count_host_wait();
    TORCH_CHECK(!streams().captures(of.id()), "stand-in: the host waits for a stream that is captured");
    streams().reach(streams().now(of.id()));
  }

  void record(void** event, const c10::Stream& on, c10::DeviceIndex /*index*/, c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) {
      *event = new Moment();
    }
    *static_cast<Moment*>(*event) = streams().now(on.id());
  }
  void block(void* event, const c10::Stream& waiting) const override {
    streams().let_wait(waiting.id(), *static_cast<Moment*>(event));
  }
  bool queryEvent(void* event) const override { return streams().reached(*static_cast<Moment*>(event)); }
  void synchronizeEvent(void* event) const override {
    streams().count_host_wait_for_event();
    streams().reach(*static_cast<Moment*>(event));
  }
  void destroyEvent(void* event, c10::DeviceIndex /*index*/) const noexcept override {
    delete static_cast<Moment*>(event);
  }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*index*/) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  /// torch::manual_seed() seeds it: random numbers, as all operators, are the CPU's.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex /*index*/) const override {
    return at::detail::getDefaultCPUGenerator();
  }
  c10::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
};

const bool registered = [] {
  c10::register_privateuse1_backend("stand_in");
  c10::SetAllocator(c10::DeviceType::PrivateUse1, &memory());
  at::RegisterPrivateUse1HooksInterface(new Hooks());  // LibTorch keeps it for ever
  return true;
}();

}  // namespace

c10::Device device() { return {c10::DeviceType::PrivateUse1, 0}; }

}  // namespace rollcall::testing_support::stand_in

#pragma once

#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>

namespace rollcall {

// Streams of a device other than the CPU.

/// Returns the stream on which operators of the calling thread are enqueued.
[[nodiscard]] inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// Returns another stream of the device's pool, for concurrent work.
[[nodiscard]] inline c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

/// Makes later work on `after` wait for the work that `before` has so far.
inline void order_after(const c10::Stream& after, const c10::Stream& before) {
  c10::Event here(before.device_type());
  here.record(before);
  here.block(after);
}

/// Calls `work` with `beside` as the current stream, which first waits for the work of the former current stream.
/// Returns the event after it. Memory that was allocated on another stream and is used by `work` may be freed once that
/// stream waits for the event; memory that `work` allocates is reused in the order of `beside`.
template <typename Work>
[[nodiscard]] c10::Event run_on_stream(const c10::Stream& beside, const Work& work) {
  order_after(beside, current_stream(beside.device()));
  const c10::StreamGuard guard(beside);
  work();
  c10::Event after(beside.device_type());
  after.record(beside);
  return after;
}

/// Waits until `event` is reached, `longest` has passed or `gives_up`, which is polled, returns true. Returns whether
/// it is reached. The thread sleeps: a driver's own wait keeps a CPU busy, and never ends if the device does not.
template <typename GivesUp>
[[nodiscard]] bool wait_for(const c10::Event& event, std::chrono::milliseconds longest, const GivesUp& gives_up) {
  constexpr std::chrono::microseconds kPause{50};  // beside steps of milliseconds
  const auto end = std::chrono::steady_clock::now() + longest;
  while (!event.query()) {
    if (gives_up() || std::chrono::steady_clock::now() > end) {
      return event.query();  // this process, too, may have been stopped for so long
    }
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

/// Throws the error of a driver for work that takes too long (cudaErrorLaunchTimeout), for a driver that reports
/// nothing.
[[noreturn]] inline void throw_device_timeout(std::chrono::milliseconds longest) {
  constexpr int kTimeout = 702;
  const std::string seconds = std::to_string((longest.count() + 500) / 1000);
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, kTimeout,
                              "the device has not completed its work within " + seconds + " s");
}

}  // namespace rollcall

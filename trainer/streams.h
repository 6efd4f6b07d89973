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

// Of a device, which is not the CPU.

/// What operators of the calling thread are given to.
[[nodiscard]] inline c10::Stream current_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
}

/// One for what happens beside it.
[[nodiscard]] inline c10::Stream new_stream(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

/// What `after` is given from now on waits for what `before` was given until now.
inline void put_behind(const c10::Stream& after, const c10::Stream& before) {
  c10::Event here(before.device_type());
  here.record(before);
  here.block(after);
}

/// Gives `work`, which is called at once, to `beside`, behind what the current stream was given until now. Returns the
/// moment after it. Memory that was taken outside and is used by `work` may be let go of once the stream that it was
/// taken on waits for that moment; what `work` takes itself is used again in the order of `beside`.
template <typename Work>
[[nodiscard]] c10::Event run_beside(const c10::Stream& beside, const Work& work) {
  put_behind(beside, current_stream(beside.device()));
  const c10::StreamGuard guard(beside);
  work();
  c10::Event after(beside.device_type());
  after.record(beside);
  return after;
}

/// Waits until `event` is reached, or for `longest`, or until `gives_up`, which is asked meanwhile. Whether it is
/// reached. The thread sleeps: a driver's own wait keeps a CPU busy, and has no end where the device has none.
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

/// What a driver says of work that takes too long (cudaErrorLaunchTimeout), said for one that is silent.
[[noreturn]] inline void tell_of_standing_still(std::chrono::milliseconds longest) {
  constexpr int kTimeout = 702;
  const std::string seconds = std::to_string((longest.count() + 500) / 1000);
  throw c10::AcceleratorError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, kTimeout,
                              "the device has not done within " + seconds + " s what it was given");
}

}  // namespace rollcall

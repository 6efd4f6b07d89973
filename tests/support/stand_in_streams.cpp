#include "tests/support/stand_in_streams.h"

namespace rollcall::testing_support::stand_in {

Streams& streams() {
  static Streams all;
  return all;
}

thread_local c10::StreamId current = 0;

void finish_current() {
  if (!is_captured()) {
    streams().reach(streams().now(current));
  }
}

void host_waits() {
  TORCH_CHECK(!is_captured(), "stand-in: the host waits for a stream that is captured");
  streams().count_host_wait();
}

Counts counts() { return streams().counts(); }

std::function<void()> capture(const std::function<void()>& work) {
  streams().begin_capture(current);
  try {
    work();
  } catch (...) {
    try {
      streams().end_capture(current);
    } catch (const c10::Error&) {
      // What went wrong first is what is told.
    }
    throw;
  }
  return [works = streams().end_capture(current)] {
    streams().count_replay();
    streams().give(current, [works] {
      for (const std::function<void()>& captured : works) {
        captured();
      }
    });
  };
}

bool is_captured() { return streams().captures(current); }

void enqueue(std::function<void()> work) { streams().give(current, std::move(work)); }

}  // namespace rollcall::testing_support::stand_in

#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace rollcall::doctor {

/// Runs `observe` on a thread of its own and returns its value, or nothing where it takes longer than `patience`: a
/// name server or a file system that hangs must not hang the report. The thread is then left behind (nothing can end a
/// thread that waits inside the kernel), so `observe` must own what it reads.
template <typename Observe>
[[nodiscard]] std::optional<std::invoke_result_t<Observe>> run_within(std::chrono::duration<double> patience,
                                                                      Observe observe) {
  using Value = std::invoke_result_t<Observe>;
  auto task = std::make_shared<std::packaged_task<Value()>>(std::move(observe));
  std::future<Value> value = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  if (value.wait_for(patience) != std::future_status::ready) {
    return std::nullopt;
  }
  return value.get();
}

}  // namespace rollcall::doctor

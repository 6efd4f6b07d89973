#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace rollcall::process_group {

/// What `work` returns if it does so by `deadline`, and nothing if it throws or takes longer: for questions to a store
/// whose holder may be stopped, on which c10d waits for ever. `work` then goes on in a thread that nobody waits for, so
/// it owns all that it touches.
template <typename T>
[[nodiscard]] std::optional<T> within(std::chrono::milliseconds deadline, std::function<T()> work) {
  auto promise = std::make_shared<std::promise<T>>();
  std::future<T> answer = promise->get_future();
  try {
    std::thread([promise, work = std::move(work)] {
      try {
        promise->set_value(work());
      } catch (...) {
        promise->set_exception(std::current_exception());
      }
    }).detach();
    return answer.wait_for(deadline) == std::future_status::ready ? std::optional<T>(answer.get()) : std::nullopt;
  } catch (const std::exception&) {  // of `work`, or no memory for another thread
    return std::nullopt;
  }
}

}  // namespace rollcall::process_group

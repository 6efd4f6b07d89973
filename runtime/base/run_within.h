#pragma once

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <type_traits>
#include <utility>

namespace rollcall {

/// Runs `work` on a thread of its own and returns its value, or nothing where it throws or takes longer than `longest`:
/// for questions to a name server, a file system or a store that may hang, and would hold up who asks for ever. `work`
/// then goes on in the thread, which is left behind (nothing can end a thread that waits inside the kernel), so it owns
/// all that it touches.
template <typename Duration, typename Work>
[[nodiscard]] std::optional<std::invoke_result_t<Work>> run_within(Duration longest, Work work) {
  using Value = std::invoke_result_t<Work>;
  try {
    auto task = std::make_shared<std::packaged_task<Value()>>(std::move(work));
    std::future<Value> value = task->get_future();
    std::thread([task] { (*task)(); }).detach();
    return value.wait_for(longest) == std::future_status::ready ? std::optional<Value>(value.get()) : std::nullopt;
  } catch (const std::exception&) {  // of `work`, or no memory for another thread
    return std::nullopt;
  }
}

}  // namespace rollcall

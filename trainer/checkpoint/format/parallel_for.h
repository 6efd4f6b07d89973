#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {

/// Runs work(i, worker) for i = 0 ... count-1 on up to `threads` threads, including this one; `worker` < threads is the
/// number of the thread. Starts no further work after a failure. Returns the Error of the lowest i that failed. `work`
/// returns a Result<void> and must not throw.
template <typename Work>
[[nodiscard]] Result<void> parallel_for(std::size_t count, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::size_t first_failed = std::numeric_limits<std::size_t>::max();
  Result<void> outcome;
  const auto run = [&](std::size_t worker) {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      Result<void> done = work(i, worker);
      if (!done) {
        const std::lock_guard lock(mutex);
        failed = true;
        if (i < first_failed) {
          first_failed = i;
          outcome = std::move(done);
        }
      }
    }
  };
  std::vector<std::jthread> others;
  for (std::size_t worker = 1; worker < std::min(threads, count); ++worker) {
    others.emplace_back(run, worker);
  }
  run(0);
  others.clear();  // joins
  return outcome;
}

}  // namespace rollcall::checkpoint::format

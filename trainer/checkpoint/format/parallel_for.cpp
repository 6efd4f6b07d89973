#include "trainer/checkpoint/format/parallel_for.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace rollcall::checkpoint::format {

Result<void> parallel_for(std::size_t count, std::size_t threads,
                          const std::function<Result<void>(std::size_t, std::size_t)>& work) {
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

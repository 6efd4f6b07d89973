#include "trainer/data/sources/in_parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <future>
#include <optional>
#include <system_error>
#include <vector>

namespace rollcall::data {

Result<void> in_parallel(std::size_t count, const std::function<Result<void>(std::size_t)>& work) {
  constexpr std::size_t kThreads = 8;
  std::vector<std::optional<Error>> errors(count);
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> failed = false;
  const auto run = [&] {
    for (std::size_t i = next++; i < count && !failed; i = next++) {
      if (const Result<void> done = work(i); !done) {
        errors[i] = done.error();
        failed = true;
      }
    }
  };
  std::vector<std::future<void>> helpers;
  try {
    while (helpers.size() + 1 < std::min(count, kThreads)) {
      helpers.push_back(std::async(std::launch::async, run));
    }
  } catch (const std::system_error&) {  // no more threads: those that are there do it
  }
  run();
  for (std::future<void>& helper : helpers) {
    helper.get();
  }
  const auto first = std::find_if(errors.begin(), errors.end(), [](const auto& error) { return error.has_value(); });
  return first == errors.end() ? Result<void>() : Result<void>(**first);
}

}  // namespace rollcall::data

#include "runtime/store/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace rollcall::store {

Answer Access::ask(Request request, const Patience& patience) {
  if (const std::size_t size = encoded_size(request); size > kLongestRequest) {
    return {.status = Answer::Status::Refused,
            .refusal = fmt::format("a request of {} bytes exceeds the limit of {} bytes", size, kLongestRequest)};
  }
  return carry_out(std::move(request), patience);
}

bool WaitLimit::over() {
  const auto now = Patience::Clock::now();
  if (now < next_) {
    return false;
  }
  next_ = later();
  return now >= patience_.until || (patience_.interrupted && patience_.interrupted());
}

Patience::Clock::time_point WaitLimit::later() const {
  constexpr std::chrono::milliseconds kPiece{100};
  constexpr std::chrono::hours kLongest{1};
  const Patience::Clock::duration piece = patience_.interrupted ? Patience::Clock::duration(kPiece) : kLongest;
  return std::min(patience_.until, Patience::Clock::now() + piece);
}

}  // namespace rollcall::store

#include "runtime/rendezvous/locate.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace rollcall::rendezvous {
namespace {

using std::chrono::milliseconds;
/// Time before the first try of locations other than the first, where rank 0 seldom is, and the shortest time between
/// two such tries.
constexpr milliseconds kOthers{1000};
constexpr milliseconds kSeldom{5000};  ///< the longest time between two such tries
/// Where a location takes longer than this to refuse, the first one is tried again before the next.
constexpr milliseconds kHeldUp{100};

/// Decides which locations are tried in which round.
class Rounds {
 public:
  explicit Rounds(Clock::time_point begin) : begin_(begin), others_next_(begin + kOthers) {}

  /// Tries the locations of this round with `ask(location)`, which returns whether to continue.
  template <typename Ask>
  void ask(const std::vector<Location>& locations, bool foreign_listener, Clock::time_point deadline, const Ask& ask) {
    const Clock::time_point begin = Clock::now();
    if (locations.empty() || !ask(locations.front()) || locations.size() == 1) {
      return;
    }
    const Clock::time_point now = Clock::now();
    const bool first_is_quick = now <= begin + kHeldUp;  // otherwise a quick second try is useless
    if (!foreign_listener && now < others_next_) {
      return;
    }
    // All ranks do this where rank 0 is late, and each try asks the name server.
    others_next_ = now + std::clamp<Clock::duration>((now - begin_) / 4, kOthers, kSeldom);
    for (std::size_t count = 1; count < locations.size() && Clock::now() < deadline; ++count) {
      const Clock::time_point asked = Clock::now();
      other_ = other_ % (locations.size() - 1) + 1;
      if (!ask(locations[other_]) || (first_is_quick && Clock::now() > asked + kHeldUp)) {
        return;
      }
    }
  }

 private:
  Clock::time_point begin_;
  Clock::time_point others_next_;
  std::size_t other_ = 0;  ///< the last location tried
};

}  // namespace

std::optional<NotFound> locate(const LocationSource& source, Clock::time_point deadline,
                               const std::function<std::optional<Error>(const Location&)>& ask) {
  const Clock::time_point begin = Clock::now();
  NotFound unmet;
  bool foreign_listener = false;
  bool found = false;
  Rounds rounds(begin);
  while (true) {
    const Locations known = source();
    rounds.ask(known.locations, foreign_listener, deadline, [&](const Location& location) {
      const std::optional<Error> error = ask(location);
      found = !error;
      const bool another = error && error->kind == ErrorKind::Mismatch;
      if (error && (another || !foreign_listener)) {  // another listener is more informative than a refused connection
        foreign_listener = another;
        unmet = {location.endpoint, error->reason};
      }
      return !found;
    });
    if (found) {
      return std::nullopt;
    }
    if (known.locations.empty() && !known.refusal.empty()) {
      unmet = {std::nullopt, known.refusal};
    }
    const milliseconds rest = rest_after(Clock::now() - begin);
    if (Clock::now() + rest >= deadline) {
      return unmet;
    }
    std::this_thread::sleep_for(rest);
  }
}

}  // namespace rollcall::rendezvous

#include "runtime/rendezvous/seek.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace rollcall::rendezvous {
namespace {

using std::chrono::milliseconds;
/// Before the first look at other places than the first, where rank 0 is but seldom, and between two at least.
constexpr milliseconds kOthers{1000};
constexpr milliseconds kSeldom{5000};  ///< between two at most
/// A place that takes this long to say no lets the first be asked again before the next.
constexpr milliseconds kHeldUp{100};

/// Which places to ask in which round.
class Rounds {
 public:
  explicit Rounds(Clock::time_point begin) : begin_(begin), others_next_(begin + kOthers) {}

  /// Asks those of this round by `ask(place)`, which tells whether to go on.
  template <typename Ask>
  void ask(const std::vector<Place>& places, bool strangers, Clock::time_point deadline, const Ask& ask) {
    const Clock::time_point begin = Clock::now();
    if (places.empty() || !ask(places.front()) || places.size() == 1) {
      return;
    }
    const Clock::time_point now = Clock::now();
    const bool first_is_quick = now <= begin + kHeldUp;  // else it gains nothing by coming again soon
    if (!strangers && now < others_next_) {
      return;
    }
    // All ranks do this where rank 0 is late, and each look asks the name server.
    others_next_ = now + std::clamp<Clock::duration>((now - begin_) / 4, kOthers, kSeldom);
    for (std::size_t count = 1; count < places.size() && Clock::now() < deadline; ++count) {
      const Clock::time_point asked = Clock::now();
      other_ = other_ % (places.size() - 1) + 1;
      if (!ask(places[other_]) || (first_is_quick && Clock::now() > asked + kHeldUp)) {
        return;
      }
    }
  }

 private:
  Clock::time_point begin_;
  Clock::time_point others_next_;
  std::size_t other_ = 0;  ///< the last that was asked
};

}  // namespace

std::optional<NotFound> seek(const PlaceSource& source, Clock::time_point deadline,
                             const std::function<std::optional<Error>(const Place&)>& ask) {
  const Clock::time_point begin = Clock::now();
  NotFound unmet;
  bool strangers = false;
  bool found = false;
  Rounds rounds(begin);
  while (true) {
    const Places known = source();
    rounds.ask(known.places, strangers, deadline, [&](const Place& place) {
      const std::optional<Error> error = ask(place);
      found = !error;
      const bool another = error && error->kind == ErrorKind::Mismatch;
      if (error && (another || !strangers)) {  // who listens there says more than that nobody does any longer
        strangers = another;
        unmet = {place.endpoint, error->reason};
      }
      return !found;
    });
    if (found) {
      return std::nullopt;
    }
    if (known.places.empty() && !known.refusal.empty()) {
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

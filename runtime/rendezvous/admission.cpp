#include "runtime/rendezvous/admission.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <thread>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/newcomers.h"
#include "runtime/rendezvous/port_owner.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {
namespace {

using std::chrono::milliseconds;
/// Before the first look at other places than the first, where rank 0 is but seldom, and between two at least.
constexpr milliseconds kOthers{1000};
constexpr milliseconds kSeldom{5000};  ///< between two at most
/// A place that takes this long to say no lets the first be asked again before the next.
constexpr milliseconds kHeldUp{100};
constexpr std::size_t kLongestHello = 1024;  ///< bytes: a host's name and numbers
/// What a listener gets to answer in: rank 0 does so at once, a stranger perhaps never.
constexpr std::chrono::seconds kPatience{5};
/// What rank 0's word that all are there may take beyond its own time limit.
constexpr std::chrono::seconds kMargin{5};

constexpr const char* kPurpose = "admission";
constexpr std::string_view kHere = "here";
constexpr std::string_view kRefused = "refused";
constexpr std::string_view kBegin = "begin";
constexpr std::string_view kFailed = "failed";

Clock::time_point after(std::chrono::duration<double> time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

/// Rank 0 while the others come.
class Arrivals {
 public:
  Arrivals(const Listener& listener, const WorldKey& key, const Secret& secret, std::uint32_t world_size)
      : listener_(listener.descriptor()),
        key_(key),
        world_size_(world_size),
        flags_(fcntl(listener_, F_GETFL)),
        newcomers_({secret, kPurpose}, kLongestHello, world_size) {
    fcntl(listener_, F_SETFL, flags_ | O_NONBLOCK);
  }
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;
  ~Arrivals() { fcntl(listener_, F_SETFL, flags_); }

  [[nodiscard]] bool complete() const { return members_.size() + 1 == world_size_; }

  /// Waits until something happens and takes it in; false where the system cannot go on: `problem` says why.
  [[nodiscard]] bool step(Clock::time_point deadline, std::string& problem) {
    wait(deadline);
    for (auto member = members_.begin(); member != members_.end();) {
      member = is_silent(member->second.socket) ? std::next(member) : members_.erase(member);
    }
    problem = newcomers_.turn(listener_,
                              [this](Socket newcomer, const std::string& text) { greet(std::move(newcomer), text); });
    return problem.empty();
  }

  void tell_all(const std::string& text) {
    for (auto& [rank, member] : members_) {
      (void)member.socket.send_frame(text, Clock::now());  // a few bytes into an empty buffer: this does not wait
    }
  }

  /// "only 2 of 4 ranks came within 60 s: 1, 3 are missing".
  [[nodiscard]] std::string who_is_missing(std::chrono::duration<double> timeout) const {
    constexpr std::size_t kMostNamed = 8;
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 1; rank < world_size_ && missing.size() < kMostNamed; ++rank) {
      if (!members_.contains(rank)) {
        missing.push_back(rank);
      }
    }
    const std::size_t all = world_size_ - 1 - members_.size();
    return fmt::format("only {} of {} ranks came within {:g} s: without {}{}{}", members_.size() + 1, world_size_,
                       timeout.count(), fmt::join(missing, ", "),
                       all > missing.size() ? fmt::format(" and {} more", all - missing.size()) : "",
                       sent_away().empty() ? "" : "; sent away: " + sent_away());
  }

  [[nodiscard]] Members take_members() {
    Members taken;
    for (auto& [rank, member] : members_) {
      taken.emplace(rank, std::move(member.socket));
    }
    return taken;
  }

 private:
  struct Member {
    Socket socket;
    std::string host;
  };

  /// A member has nothing to say: what it says is not read, and would wake this loop again and again.
  [[nodiscard]] static bool is_silent(Socket& socket) { return socket.take_arrived() && socket.frames().size() == 0; }

  void wait(Clock::time_point deadline) const {
    std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
    newcomers_.add_to(waiting);
    for (const auto& [rank, member] : members_) {
      waiting.push_back({member.socket.descriptor(), POLLIN, 0});
    }
    poll(waiting.data(), waiting.size(), milliseconds_until(deadline));
  }

  /// Answers who has said who it is; whom it refuses it closes.
  void greet(Socket newcomer, const std::string& text) {
    const std::optional<Hello> hello = parse_hello(text);
    if (!hello) {
      return;
    }
    const std::string reason = why_not(*hello);
    const std::string answer =
        reason.empty() ? fmt::format("{}\n{}", kHere, key_.nonce) : fmt::format("{}\n{}", kRefused, reason);
    const bool told = newcomer.send_frame(answer, Clock::now()).has_value();
    if (!reason.empty()) {
      refused_ = fmt::format("rank {} on {}", hello->rank, printable(hello->host));
    } else if (told && is_silent(newcomer)) {
      members_.insert_or_assign(hello->rank, Member{std::move(newcomer), hello->host});
    }
  }

  [[nodiscard]] std::string why_not(const Hello& hello) const {
    if (hello.world_size != world_size_ || hello.rank == 0 || hello.rank >= world_size_) {
      return fmt::format("rank {} of {} is none of the {} ranks of {} on {}", hello.rank, hello.world_size, world_size_,
                         key_.name, this_host_name());
    }
    const auto other = members_.find(hello.rank);
    return other == members_.end()
               ? ""
               : fmt::format("rank {} of {} is there already, from {}", hello.rank, key_.name, other->second.host);
  }

  [[nodiscard]] const std::string& sent_away() const { return refused_.empty() ? newcomers_.sent_away() : refused_; }

  int listener_;
  const WorldKey& key_;
  std::uint32_t world_size_;
  int flags_;
  Newcomers newcomers_;
  std::map<std::uint32_t, Member> members_;
  std::string refused_;  ///< the last that knows the secret and is no rank of this world
};

/// What came of one place: an admission, a final error, or why to go on looking.
struct Answer {
  std::optional<Result<Admission>> final = {};
  std::string reason = {};
  bool refused =
      false;  ///< it is known that another one listens there: rank 0 of another world, another user's process
};

Error given_up(const Endpoint& endpoint, const std::string& reason) {
  return fail("rendezvous", to_text(endpoint), reason, "looking which tasks did not start or why rank 0 failed",
              ErrorKind::NobodyMet);
}

/// Rank 0 of this world answered: it waits for the others no longer than `timeout` from before now.
Result<Admission> await_others(Admission admission, std::chrono::duration<double> timeout) {
  const Result<std::string> text = admission.head.receive_frame(after(timeout) + kMargin);
  if (!text) {
    return given_up(admission.endpoint,
                    fmt::format("rank 0 of {} is gone: {}", admission.key.name, text.error().reason));
  }
  const std::vector<std::string> lines = split(*text, '\n');
  if (lines.size() == 2 && lines[0] == kFailed) {
    return given_up(admission.endpoint, lines[1]);
  }
  return *text == kBegin ? Result<Admission>(std::move(admission))
                         : given_up(admission.endpoint, "rank 0 speaks another version's language");
}

Answer ask_at(const Place& place, const Newcomer& newcomer, std::chrono::duration<double> timeout,
              Clock::time_point deadline) {
  const auto patience = [&] { return std::min<Clock::time_point>(deadline, Clock::now() + kPatience); };
  const Attempt attempt = connect_once(place.endpoint, patience());
  if (attempt.descriptor < 0) {
    return {std::nullopt, attempt.reason};
  }
  Socket socket(attempt.descriptor, End::Client, {place.secret, kPurpose});
  if (const std::string stranger = stranger_at_other_end(attempt.descriptor); !stranger.empty()) {
    return {std::nullopt, stranger + ", which cannot be rank 0", true};
  }
  const Hello hello{newcomer.rank, newcomer.world_size, this_host_name()};
  const Result<void> sent = socket.send_frame(to_text(hello), patience());
  const Result<std::string> text = sent ? socket.receive_frame(patience()) : Result<std::string>(sent.error());
  if (!text && socket.frames().opened()) {
    return {
        std::nullopt,
        fmt::format("a rollcall listens there that does not know the secret of {} (rendezvous.secret), or is gone: {}",
                    newcomer.world, text.error().reason),
        true};
  }
  const std::vector<std::string> lines = split(text ? *text : "", '\n');
  if (lines.size() == 2 && lines[0] == kRefused) {
    return {std::nullopt, lines[1], true};
  }
  if (lines.size() != 2 || lines[0] != kHere) {
    return {std::nullopt, fmt::format("something else listens there{}", text ? "" : ": " + text.error().reason)};
  }
  return {await_others({place.endpoint, {newcomer.world, lines[1]}, std::move(socket)}, timeout), ""};
}

/// Which places to ask in which round: the first in each, and the others in turn from 1 s after `begin` on, or as soon
/// as a stranger was met.
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

Error nobody(const std::optional<Endpoint>& last, const std::string& reason, std::chrono::duration<double> timeout,
             const std::string& subject, const std::string& what) {
  const std::string host = this_host_name();
  if (!last) {
    return fail(subject, what,
                reason.empty()
                    ? fmt::format("rank 0 did not appear there within {:g} s (seen from {})", timeout.count(), host)
                    : fmt::format("{}, for {:g} s (seen from {})", reason, timeout.count(), host),
                "a folder of your own that all nodes share, or looking at why rank 0 failed", ErrorKind::Unavailable);
  }
  return fail(
      "rendezvous", to_text(*last), fmt::format("did not answer {} within {:g} s ({})", host, timeout.count(), reason),
      "looking at why rank 0 failed, another host.template, or a longer rendezvous.timeout", ErrorKind::NobodyMet);
}

}  // namespace

std::string to_text(const Hello& hello) { return fmt::format("{}\n{}\n{}", hello.rank, hello.world_size, hello.host); }

std::optional<Hello> parse_hello(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 3) {
    return std::nullopt;
  }
  const auto rank = parse_integer<std::uint32_t>(lines[0]);
  const auto size = parse_integer<std::uint32_t>(lines[1]);
  return rank && size ? std::optional(Hello{*rank, *size, lines[2]}) : std::nullopt;
}

Result<Members> admit_others(const Listener& listener, const WorldKey& key, const Secret& secret,
                             std::uint32_t world_size, std::chrono::duration<double> timeout) {
  const Clock::time_point deadline = after(timeout);
  Arrivals arrivals(listener, key, secret, world_size);
  std::string problem;
  while (!arrivals.complete() && problem.empty() && Clock::now() < deadline) {
    if (!arrivals.step(deadline, problem)) {
      break;
    }
  }
  if (arrivals.complete()) {
    arrivals.tell_all(std::string(kBegin));
    return arrivals.take_members();
  }
  const std::string reason = problem.empty() ? arrivals.who_is_missing(timeout) : "cannot accept ranks: " + problem;
  arrivals.tell_all(fmt::format("{}\n{}", kFailed, reason));
  return fail("rendezvous", key.name, reason,
              problem.empty() ? "looking which tasks did not start, or a longer rendezvous.timeout"
                              : "a higher hard limit (ulimit -Hn) where too many files are open",
              ErrorKind::Unavailable);
}

Result<Admission> be_admitted(const PlaceSource& source, const Newcomer& newcomer,
                              std::chrono::duration<double> timeout, const std::string& subject,
                              const std::string& what) {
  const Clock::time_point begin = Clock::now();
  const Clock::time_point deadline = after(timeout);
  std::optional<Endpoint> last;
  std::string reason;
  bool refused = false;
  std::optional<Result<Admission>> final;
  Rounds rounds(begin);
  while (true) {
    const Places known = source();
    rounds.ask(known.places, refused, deadline, [&](const Place& place) {
      Answer answer = ask_at(place, newcomer, timeout, deadline);
      final = std::move(answer.final);
      if (answer.refused || !refused) {  // who listens there says more than that nobody does any longer
        refused = answer.refused;
        last = place.endpoint;
        reason = std::move(answer.reason);
      }
      return !final;
    });
    if (final) {
      return *std::move(final);
    }
    if (known.places.empty() && !known.refusal.empty()) {
      last.reset();
      reason = known.refusal;
    }
    const milliseconds rest = rest_after(Clock::now() - begin);
    if (Clock::now() + rest >= deadline) {
      return nobody(last, reason, timeout, subject, what);
    }
    std::this_thread::sleep_for(rest);
  }
}

}  // namespace rollcall::rendezvous

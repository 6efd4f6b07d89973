#include "runtime/rendezvous/admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/rendezvous/event_loop.h"
#include "runtime/rendezvous/handshake.h"
#include "runtime/rendezvous/pending_connections.h"

namespace rollcall::rendezvous {
namespace {

/// Time limit for a listener's answer: rank 0 answers immediately, another program may never do so.
constexpr std::chrono::seconds kPatience{5};
/// How much longer than its own time limit rank 0 may take to report that all ranks are present.
constexpr std::chrono::seconds kMargin{5};

constexpr const char* kPurpose = "admission";
constexpr std::string_view kBegin = "begin";
constexpr std::string_view kFailed = "failed";

Clock::time_point after(std::chrono::duration<double> time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

/// The state of rank 0 while ranks arrive.
class Arrivals {
 public:
  Arrivals(const Listener& listener, const WorldKey& key, const Secret& secret, std::uint32_t world_size)
      : key_(key),
        world_size_(world_size),
        pending_(
            loop_, {secret, kPurpose}, world_size,
            [this](Socket connection, const Hello& hello) { greet(std::move(connection), hello); },
            [this](const RejectedPeer& rejected) { rejected_ = to_text(rejected); }) {
    pending_.listen(listener.descriptor());
  }

  [[nodiscard]] bool complete() const { return members_.size() + 1 == world_size_; }

  /// Waits for the next event and handles it; returns false where the system cannot continue, with the reason in
  /// `problem`.
  [[nodiscard]] bool step(Clock::time_point deadline, std::string& problem) {
    loop_.wait(deadline);
    pending_.tick(Clock::now());
    problem = pending_.problem();
    return problem.empty();
  }

  void send_all(const std::string& text) {
    for (auto& [rank, member] : members_) {
      (void)member.socket.send_frame(text, Clock::now());  // a few bytes into an empty buffer do not block
    }
  }

  /// Returns "only 2 of 4 ranks arrived within 60 s; missing: 1, 3".
  [[nodiscard]] std::string who_is_missing(std::chrono::duration<double> timeout) const {
    constexpr std::size_t kMostNamed = 8;
    std::vector<std::uint32_t> missing;
    for (std::uint32_t rank = 1; rank < world_size_ && missing.size() < kMostNamed; ++rank) {
      if (!members_.contains(rank)) {
        missing.push_back(rank);
      }
    }
    const std::size_t all = world_size_ - 1 - members_.size();
    return fmt::format("only {} of {} ranks arrived within {:g} s; missing: {}{}{}", members_.size() + 1, world_size_,
                       timeout.count(), fmt::join(missing, ", "),
                       all > missing.size() ? fmt::format(" and {} more", all - missing.size()) : "",
                       last_rejected().empty() ? "" : "; rejected: " + last_rejected());
  }

  [[nodiscard]] Members take_members() {
    Members taken;
    for (auto& [rank, member] : members_) {
      loop_.forget(member.socket.descriptor());
      taken.emplace(rank, std::move(member.socket));
    }
    return taken;
  }

 private:
  struct Member {
    Socket socket;
    std::string host;
  };

  /// Returns whether the rank is connected and has sent nothing. A rank must not send anything: unread data would wake
  /// this loop again and again.
  [[nodiscard]] static bool is_silent(Socket& socket) { return socket.take_arrived() && socket.frames().size() == 0; }

  /// Answers a hello; closes the connection where the rank is refused.
  void greet(Socket connection, const Hello& hello) {
    const std::string reason = why_refused(hello);
    const bool sent =
        connection.send_frame(reason.empty() ? welcome(key_.nonce) : refusal(reason), Clock::now()).has_value();
    if (!reason.empty()) {
      refused_ = fmt::format("rank {} on {}", hello.rank, printable(hello.host));
    } else if (sent && is_silent(connection)) {
      loop_.watch(connection.descriptor(), [this, rank = hello.rank] { receive(rank); });
      members_.emplace(hello.rank, Member{std::move(connection), hello.host});
    }
  }

  void receive(std::uint32_t rank) {
    const auto member = members_.find(rank);
    if (!is_silent(member->second.socket)) {
      loop_.forget(member->second.socket.descriptor());
      members_.erase(member);
    }
  }

  [[nodiscard]] std::string why_refused(const Hello& hello) const {
    if (hello.world_size != world_size_ || hello.rank == 0 || hello.rank >= world_size_) {
      return fmt::format("rank 0 of {} on {} accepts only ranks of its own run, not rank {} of {}", key_.name,
                         this_host_name(), hello.rank, hello.world_size);
    }
    const auto other = members_.find(hello.rank);
    return other == members_.end()
               ? ""
               : fmt::format("rank {} of {} has already joined, from {}", hello.rank, key_.name, other->second.host);
  }

  [[nodiscard]] const std::string& last_rejected() const { return refused_.empty() ? rejected_ : refused_; }

  const WorldKey& key_;
  std::uint32_t world_size_;
  std::map<std::uint32_t, Member> members_;
  std::string rejected_;  ///< the last peer rejected without an answer
  std::string refused_;   ///< the last refused rank, which knows the secret but is not of this world
  EventLoop loop_;
  PendingConnections pending_;
};

Error given_up(const Endpoint& endpoint, const std::string& reason) {
  return fail("rendezvous", to_text(endpoint), reason, "checking which tasks did not start or why rank 0 failed",
              ErrorKind::RendezvousUnanswered);
}

/// Waits for the result after rank 0 has answered. Rank 0 waits for the other ranks for at most `timeout` from now.
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
                         : given_up(admission.endpoint, "rank 0 is another version of rollcall");
}

Error nobody(const NotFound& rank_0, std::chrono::duration<double> timeout, const std::string& subject,
             const std::string& what) {
  const std::string host = this_host_name();
  const std::string& reason = rank_0.reason;
  if (!rank_0.endpoint) {
    return fail(
        subject, what,
        reason.empty()
            ? fmt::format("rank 0 published no endpoint there within {:g} s (seen from {})", timeout.count(), host)
            : fmt::format("{}, for {:g} s (seen from {})", reason, timeout.count(), host),
        "giving a folder of your own that all nodes share, or checking why rank 0 failed", ErrorKind::Unavailable);
  }
  return fail("rendezvous", to_text(*rank_0.endpoint),
              fmt::format("did not answer {} within {:g} s ({})", host, timeout.count(), reason),
              "checking why rank 0 failed, changing host.template, or raising rendezvous.timeout",
              ErrorKind::RendezvousUnanswered);
}

}  // namespace

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
    arrivals.send_all(std::string(kBegin));
    return arrivals.take_members();
  }
  const std::string reason = problem.empty() ? arrivals.who_is_missing(timeout) : "cannot accept ranks: " + problem;
  arrivals.send_all(fmt::format("{}\n{}", kFailed, reason));
  return fail("rendezvous", key.name, reason,
              problem.empty() ? "checking which tasks did not start, or raising rendezvous.timeout"
                              : "raising the hard limit of open files (ulimit -Hn)",
              ErrorKind::Unavailable);
}

Result<Admission> be_admitted(const LocationSource& source, const AdmissionRequest& request,
                              std::chrono::duration<double> timeout, const std::string& subject,
                              const std::string& what) {
  const Hello hello{.rank = request.rank, .world_size = request.world_size, .host = this_host_name()};
  const std::string secret = "the secret of " + request.world;
  const Clock::time_point deadline = after(timeout);
  std::optional<Result<Admission>> admission;
  const std::optional<NotFound> not_found =
      locate(source, deadline, [&](const Location& location) -> std::optional<Error> {
        ASSIGN_OR_RETURN(HandshakeResult head, perform_handshake(location.endpoint, {location.secret, kPurpose}, hello,
                                                                 secret, kPatience, deadline));
        admission = await_others({location.endpoint, {request.world, head.nonce}, std::move(head.socket)}, timeout);
        return std::nullopt;
      });
  return not_found ? nobody(*not_found, timeout, subject, what) : *std::move(admission);
}

}  // namespace rollcall::rendezvous

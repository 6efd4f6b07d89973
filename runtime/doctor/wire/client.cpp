#include "runtime/doctor/wire/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "runtime/rendezvous/port_owner.h"

namespace rollcall::doctor {
namespace {

using rendezvous::Endpoint;
constexpr std::chrono::seconds kOneAttempt{2};
/// For the attempt whose failure is reported: a busy rank 0 is no blocked port.
constexpr std::chrono::seconds kLastAttempt{5};
/// Rank 0 may start a little later than the others: until then only the expected endpoint is tried, so that a healthy
/// step asks no name server for names that nobody needs.
constexpr std::chrono::seconds kUntilOthers{1};

/// A connection on which rank 0 greeted back, or why not; ErrorKind::Mismatch where somebody listens there.
Result<Socket> greet_at(const Endpoint& endpoint, const rendezvous::Secret& secret, const Greeting& greeting,
                        Clock::time_point deadline) {
  const auto failed = [&](const std::string& reason, ErrorKind kind = ErrorKind::Mismatch) {
    return fail("doctor", rendezvous::to_text(endpoint), reason, "rollcall env", kind);
  };
  rendezvous::Attempt attempt = rendezvous::connect_once(endpoint, deadline);
  if (attempt.descriptor < 0) {
    return failed(attempt.reason, ErrorKind::Unavailable);
  }
  Socket socket(attempt.descriptor, rendezvous::End::Client, {secret, kDoctor});
  if (const std::string stranger = rendezvous::stranger_at_other_end(attempt.descriptor); !stranger.empty()) {
    return failed(stranger + ", which cannot be rank 0");
  }
  if (!socket.send_frame(to_text(greeting), deadline)) {
    return failed("something else listens there");
  }
  const Result<std::string> answer = socket.receive_frame(deadline);
  const std::optional<Greeting> welcome = answer ? parse_greeting(*answer) : std::nullopt;
  if (!welcome || welcome->rank != 0) {
    return failed("a rollcall listens there that does not know this step's secret (rendezvous.secret), or is gone");
  }
  return socket;
}

Clock::time_point attempt_deadline(Clock::time_point deadline, std::chrono::seconds patience = kOneAttempt) {
  return std::min<Clock::time_point>(deadline, Clock::now() + patience);
}

/// Rank 0 listens now, so one failure is the truth.
std::string why_not_expected(const Candidates& candidates, const rendezvous::Secret& secret, Greeting greeting,
                             Clock::time_point deadline) {
  if (!candidates.expected) {
    return "nothing says where rank 0 is";
  }
  if (!candidates.expected_error.empty()) {
    return candidates.expected_error;
  }
  greeting.probe = true;
  const Result<Socket> probe =
      greet_at(*candidates.expected, secret, greeting, attempt_deadline(deadline, kLastAttempt));
  return probe ? "" : probe.error().reason;
}

std::vector<std::string> silent_addresses(const Candidates& candidates) {
  std::vector<network::Address> addresses = candidates.addresses;
  std::stable_partition(addresses.begin(), addresses.end(), [](const network::Address& each) { return !each.ipv4; });
  std::vector<std::string> silent;
  bool any_answers = false;
  for (const network::Address& address : addresses.size() > 1 ? addresses : std::vector<network::Address>()) {
    const rendezvous::Attempt attempt =
        rendezvous::connect_once({address.text, candidates.expected->port}, Clock::now() + kOneAttempt);
    if (attempt.silent) {
      silent.push_back(address.text);
    }
    if (attempt.descriptor >= 0) {
      ::close(attempt.descriptor);
      any_answers = true;
    }
  }
  return any_answers ? silent : std::vector<std::string>();
}

Error nobody(const Candidates& candidates, std::size_t tried, const std::string& reason) {
  const std::string where = candidates.expected ? rendezvous::to_text(*candidates.expected) : "rank 0";
  return fail("doctor", where,
              fmt::format("rank 0 does not answer {} ({}){}", candidates.this_host,
                          reason.empty() ? "nothing says where it is" : reason,
                          tried > 1 ? fmt::format(", nor at {} other endpoints", tried - 1) : ""),
              "rollcall env on that node, another host.template or port.range, a longer rendezvous.timeout",
              ErrorKind::Unavailable);
}

}  // namespace

Result<Socket> find_rank_0(const Candidates& candidates, const rendezvous::Secret& secret, const Greeting& greeting,
                           const std::function<std::string()>& further_host, Clock::time_point deadline,
                           HeadFacts& head) {
  const bool usable = candidates.expected && candidates.expected_error.empty();
  head.endpoint = candidates.expected ? rendezvous::to_text(*candidates.expected) : "";
  Candidates known = candidates;
  std::vector<Endpoint> endpoints = endpoints_of(known);
  const Clock::time_point begin = Clock::now();
  const Clock::time_point try_others = begin + kUntilOthers;
  bool asked_further = false;
  bool answered = false;
  std::string first_reason = candidates.expected_error;
  while (true) {
    const bool others = !usable || Clock::now() > try_others;
    const std::size_t count = others ? endpoints.size() : 1;
    for (std::size_t i = 0; i < count && Clock::now() < deadline; ++i) {
      Result<Socket> rank_0 = greet_at(endpoints[i], secret, greeting, attempt_deadline(deadline));
      if (rank_0 && (i > 0 || !usable)) {
        head.used = rendezvous::to_text(endpoints[i]);
        head.error = why_not_expected(candidates, secret, greeting, deadline);
      }
      if (rank_0) {
        head.silent_addresses = silent_addresses(candidates);
        return rank_0;
      }
      // Who listened there says more than that nobody does any longer.
      if (i == 0 && usable && (!answered || rank_0.error().kind == ErrorKind::Mismatch)) {
        answered = rank_0.error().kind == ErrorKind::Mismatch;
        first_reason = rank_0.error().reason;
      }
    }
    if (!asked_further && Clock::now() > try_others) {
      asked_further = true;
      known.hosts.push_back(further_host());
      endpoints = known.hosts.back().empty() ? endpoints : endpoints_of(known);
    }
    const auto rest = rendezvous::rest_after(Clock::now() - begin);
    if (Clock::now() + rest >= deadline) {
      return nobody(candidates, endpoints.size(), first_reason);
    }
    std::this_thread::sleep_for(rest);
  }
}

Result<void> serve(Socket& rank_0, std::uint32_t world_size, const std::function<std::string(const Request&)>& answer,
                   Clock::time_point deadline) {
  while (true) {
    const Result<std::string> text = rank_0.receive_frame(deadline);
    if (!text) {
      return fail("doctor", "rank 0", text.error().reason, "looking at why rank 0 ended", ErrorKind::Unavailable);
    }
    const std::optional<Request> request = parse_request(*text, world_size);
    if (!request) {
      return fail("doctor", "rank 0", "asks for what this version of rollcall does not know or no ring can be",
                  "the same version of rollcall on all nodes", ErrorKind::Mismatch);
    }
    if (request->what == Request::What::Leave) {
      return {};
    }
    if (Result<void> sent = rank_0.send_frame(answer(*request), deadline); !sent) {
      return sent;
    }
  }
}

}  // namespace rollcall::doctor

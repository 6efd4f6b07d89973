#include "runtime/doctor/wire/client.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/rendezvous/locate.h"

namespace rollcall::doctor {
namespace {

using rendezvous::Endpoint;
constexpr std::chrono::seconds kOneAttempt{2};
/// Time limit of the attempt whose failure is reported: a busy rank 0 is not a blocked port.
constexpr std::chrono::seconds kLastAttempt{5};
/// Rank 0 may start a little later than the other ranks; until then, only the expected endpoint is tried.
constexpr std::chrono::seconds kUntilFurther{1};

using Greeted = Result<rendezvous::HandshakeResult>;

Greeted greet_at(const Endpoint& endpoint, const rendezvous::Secret& secret, const rendezvous::Hello& hello,
                 std::chrono::seconds patience, Clock::time_point deadline) {
  return rendezvous::perform_handshake(endpoint, {secret, kDoctor}, hello, "this step's secret", patience, deadline);
}

/// Returns why the expected endpoint does not work. Rank 0 listens now, so one failure is conclusive.
std::string why_not_expected(const Candidates& candidates, const rendezvous::Secret& secret, rendezvous::Hello hello,
                             Clock::time_point deadline) {
  if (!candidates.expected) {
    return "the location of rank 0 is unknown";
  }
  if (!candidates.expected_error.empty()) {
    return candidates.expected_error;
  }
  hello.role = kProbe;
  const Greeted probe = greet_at(*candidates.expected, secret, hello, kLastAttempt, deadline);
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
  return fail(
      "doctor", where,
      fmt::format("rank 0 does not answer {} ({}){}", candidates.this_host,
                  reason.empty() ? "its location is unknown" : reason,
                  tried > 1 ? fmt::format(", nor at {} other endpoint{}", tried - 1, tried == 2 ? "" : "s") : ""),
      "running rollcall env on that node, changing host.template or port.range, or raising rendezvous.timeout",
      ErrorKind::Unavailable);
}

}  // namespace

Result<Socket> find_rank_0(const Candidates& candidates, const rendezvous::Secret& secret,
                           const rendezvous::Hello& hello, const std::function<std::string()>& further_host,
                           Clock::time_point deadline, HeadFacts& head) {
  const bool usable = candidates.expected && candidates.expected_error.empty();
  const Clock::time_point ask_further = Clock::now() + kUntilFurther;
  Candidates known = candidates;
  bool asked_further = false;
  const auto locations = [&] {
    if (!asked_further && Clock::now() > ask_further) {
      asked_further = true;
      const std::string host = further_host();
      known.hosts.insert(known.hosts.end(), host.empty() ? 0 : 1, host);
    }
    rendezvous::Locations all;
    for (const Endpoint& endpoint : endpoints_of(known)) {
      all.locations.push_back({endpoint, secret});
    }
    return all;
  };
  head.endpoint = candidates.expected ? rendezvous::to_text(*candidates.expected) : "";
  std::string used;
  std::string reason = candidates.expected_error;
  bool met_another = false;
  Socket rank_0;
  const auto not_found = rendezvous::locate(locations, deadline, [&](const rendezvous::Location& location) {
    Greeted greeted = greet_at(location.endpoint, secret, hello, kOneAttempt, deadline);
    used = rendezvous::to_text(location.endpoint);
    if (greeted) {
      rank_0 = std::move(greeted->socket);
      return std::optional<Error>();
    }
    // Another listener is more informative than a refused connection.
    const bool another = greeted.error().kind == ErrorKind::Mismatch;
    if (usable && used == head.endpoint && (another || !met_another)) {
      met_another = another;
      reason = greeted.error().reason;
    }
    return std::optional(greeted.error());
  });
  if (not_found) {
    return nobody(candidates, endpoints_of(known).size(), reason);
  }
  head.silent_addresses = silent_addresses(candidates);
  if (!usable || used != head.endpoint) {
    head.used = used;
    head.error = why_not_expected(candidates, secret, hello, deadline);
  }
  return rank_0;
}

Result<void> serve(Socket& rank_0, std::uint32_t world_size, const std::function<std::string(const Request&)>& answer,
                   Clock::time_point deadline) {
  while (true) {
    const Result<std::string> text = rank_0.receive_frame(deadline);
    if (!text) {
      return fail("doctor", "rank 0", text.error().reason, "checking why rank 0 ended", ErrorKind::Unavailable);
    }
    const std::optional<Request> request = parse_request(*text, world_size);
    if (!request) {
      return fail("doctor", "rank 0",
                  "sent a request that this version of rollcall does not know, or that no ring can meet",
                  "installing the same version of rollcall on all nodes", ErrorKind::Mismatch);
    }
    if (request->what == Request::What::Leave) {
      return {};
    }
    RETURN_IF_ERROR(rank_0.send_frame(answer(*request), deadline));
  }
}

}  // namespace rollcall::doctor

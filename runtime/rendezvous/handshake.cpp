#include "runtime/rendezvous/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/rendezvous/port_owner.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::string_view kHere = "here\n";
constexpr std::string_view kRefused = "refused\n";

Error unmet(const Endpoint& endpoint, const std::string& reason, ErrorKind kind) {
  return fail("rendezvous", to_text(endpoint), reason, "", kind);
}

}  // namespace

std::string to_text(const Hello& hello) {
  return fmt::format("{}\n{}\n{}\n{}\n{}", kVersion, hello.role, hello.rank, hello.world_size, hello.host);
}

std::optional<Hello> parse_hello(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  if (lines.size() != 5 || lines[0] != kVersion) {
    return std::nullopt;
  }
  const auto rank = parse_integer<std::uint32_t>(lines[2]);
  const auto size = parse_integer<std::uint32_t>(lines[3]);
  return rank && size ? std::optional(Hello{lines[1], *rank, *size, lines[4]}) : std::nullopt;
}

std::string version_of(const std::string& text) {
  constexpr std::string_view kNamed = R"("protocol":")";
  constexpr std::size_t kLongest = 40;
  const std::size_t named = text.find(kNamed);
  if (named == std::string::npos && !text.starts_with("rollcall")) {
    return "an older protocol";
  }
  const std::string version = named == std::string::npos ? text : text.substr(named + kNamed.size());
  return printable(version.substr(0, std::min(kLongest, version.find_first_of("\n\""))));
}

std::string refusal_of_another_version(const std::string& text) {
  const std::vector<std::string> lines = split(text, '\n');
  const bool old_rank = lines.size() == 3 && parse_integer<std::uint32_t>(lines[0]);  // rank, world size, host
  if (!old_rank && !text.starts_with("rollcall") && !text.starts_with('{')) {
    return "";
  }
  return fmt::format("the process that listens here uses {}, not {}: it is another version of rollcall", kVersion,
                     version_of(text));
}

std::string welcome(const std::string& nonce) { return std::string(kHere) + nonce; }
std::string refusal(const std::string& reason) { return std::string(kRefused) + reason; }

std::optional<std::string> reason_of_refusal(const std::string& text) {
  return text.starts_with(kRefused) ? std::optional(text.substr(kRefused.size())) : std::nullopt;
}

Result<Socket> connect_sealed(const Endpoint& endpoint, const Seal& seal, Clock::time_point deadline) {
  const Attempt attempt = connect_once(endpoint, deadline);
  if (attempt.descriptor < 0) {
    return unmet(endpoint, attempt.reason, ErrorKind::Unavailable);
  }
  Socket socket(attempt.descriptor, End::Client, seal);
  if (const std::string foreign = foreign_listener(attempt.descriptor); !foreign.empty()) {
    return unmet(endpoint, foreign, ErrorKind::Mismatch);
  }
  return socket;
}

Result<HandshakeResult> perform_handshake(const Endpoint& endpoint, const Seal& seal, const Hello& hello,
                                          const std::string& secret, std::chrono::seconds patience,
                                          Clock::time_point deadline) {
  const auto until = [&] { return std::min<Clock::time_point>(deadline, Clock::now() + patience); };
  Result<Socket> socket = connect_sealed(endpoint, seal, until());
  if (!socket) {
    const bool foreign = socket.error().kind == ErrorKind::Mismatch;
    return unmet(endpoint, socket.error().reason + (foreign ? ", which cannot be rank 0" : ""), socket.error().kind);
  }
  const Result<void> sent = socket->send_frame(to_text(hello), until());
  const Result<std::string> answer = sent ? socket->receive_frame(until()) : Result<std::string>(sent.error());
  if (!answer && socket->frames().opened()) {
    return unmet(
        endpoint,
        fmt::format("a rollcall process listens there that does not know {} (rendezvous.secret), or has ended: {}",
                    secret, answer.error().reason),
        ErrorKind::Mismatch);
  }
  if (!answer || !answer->starts_with(kHere)) {
    const std::optional<std::string> refused = answer ? reason_of_refusal(*answer) : std::nullopt;
    const std::string reason = "another program listens there" + (answer ? "" : ": " + answer.error().reason);
    return unmet(endpoint, refused.value_or(reason), refused ? ErrorKind::Mismatch : ErrorKind::Unavailable);
  }
  return HandshakeResult{*std::move(socket), answer->substr(kHere.size())};
}

}  // namespace rollcall::rendezvous

#include "runtime/elastic/failure.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <iterator>
#include <limits>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/untrusted_json.h"

namespace rollcall::elastic {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

/// Returns how much later than its effects this cause may become known; 0: it may itself be an effect. Processes do not
/// get these signals because a peer is gone (libraries end with ABRT then). The loss of a node is known after the
/// heartbeat timeout.
std::int64_t known_late_by(const Cause& cause) {
  constexpr std::array kSignals{SIGKILL, SIGSEGV, SIGBUS, SIGILL, SIGFPE};
  if (cause.kind == Cause::Kind::NodeLost || cause.kind == Cause::Kind::NodeLeft) {
    return 5 * kSecond;
  }
  const bool died_by_itself =
      cause.kind == Cause::Kind::Killed && std::ranges::find(kSignals, cause.signal) != kSignals.end();
  return died_by_itself ? kSecond : 0;
}

std::string first_line(const std::string& text) { return printable(text.substr(0, text.find('\n'))); }

}  // namespace

std::optional<Cause> choose_first_cause(const std::vector<AgedCause>& causes) {
  const auto older = [](const AgedCause& a, const AgedCause& b) { return a.age_nanoseconds > b.age_nanoseconds; };
  const auto oldest = std::ranges::min_element(causes, older);
  if (oldest == causes.end()) {
    return std::nullopt;
  }
  const AgedCause* first = &*oldest;
  for (const AgedCause& other : causes) {
    const std::int64_t late = known_late_by(other.cause);
    const bool explains = late > 0 && oldest->age_nanoseconds - other.age_nanoseconds <= late;
    if (explains && (known_late_by(first->cause) == 0 || older(other, *first))) {
      first = &other;
    }
  }
  return first->cause;
}

void Causes::add(Cause cause, std::chrono::steady_clock::time_point now) {
  constexpr std::ptrdiff_t kMostOfNode = 1024;
  const auto of_node = [&](std::uint32_t rank) { return causes_.lower_bound(WorkerKey{rank, 0}); };
  if (std::distance(of_node(cause.group_rank), of_node(cause.group_rank + 1)) < kMostOfNode) {
    const WorkerKey key{cause.group_rank, cause.local_rank};
    keep(key, std::move(cause), now);
  }
}

void Causes::add_node(Cause cause, std::chrono::steady_clock::time_point now) {
  const WorkerKey after_its_ranks{cause.group_rank, std::numeric_limits<std::uint32_t>::max()};
  keep(after_its_ranks, std::move(cause), now);
}

void Causes::keep(const WorkerKey& key, Cause cause, std::chrono::steady_clock::time_point now) {
  for (std::string* const text : {&cause.host, &cause.message, &cause.error_file}) {
    text->resize(std::min(text->size(), kLongestMessage));
  }
  const std::int64_t age = cause.age_nanoseconds - std::chrono::nanoseconds(now.time_since_epoch()).count();
  causes_.insert_or_assign(key, AgedCause{std::move(cause), age});
}

std::optional<Cause> Causes::first() const {
  std::vector<AgedCause> all;
  for (const auto& [key, aged] : causes_) {
    all.push_back(aged);
  }
  return choose_first_cause(all);
}

std::optional<std::string> error_file_message(std::string_view json) {
  const auto parsed = parse_untrusted(json).value_or(nlohmann::json());
  if (!parsed.is_object() || !parsed.contains("message")) {
    return std::nullopt;
  }
  const auto& message = parsed["message"];
  if (message.is_string()) {
    return first_line(message.get<std::string>());
  }
  const bool inner = message.is_object() && message.contains("message") && message["message"].is_string();
  return inner ? std::optional(first_line(message["message"].get<std::string>())) : std::nullopt;
}

std::string with_error_code(std::string_view json, int exit_code) {
  auto parsed = parse_untrusted(json).value_or(nlohmann::json());
  if (!parsed.is_object() || !parsed.contains("message") || !parsed["message"].is_object()) {
    return std::string(json);
  }
  parsed["message"]["errorCode"] = exit_code;
  return parsed.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string signal_text(int signal) {
  // The names that sigabbrev_np(3) returns, which glibc has from 2.32 on only.
  constexpr std::array kNames{"HUP",  "INT",    "QUIT", "ILL",   "TRAP", "ABRT", "BUS",  "FPE",
                              "KILL", "USR1",   "SEGV", "USR2",  "PIPE", "ALRM", "TERM", "STKFLT",
                              "CHLD", "CONT",   "STOP", "TSTP",  "TTIN", "TTOU", "URG",  "XCPU",
                              "XFSZ", "VTALRM", "PROF", "WINCH", "POLL", "PWR",  "SYS"};
  const bool has_name = signal > 0 && static_cast<std::size_t>(signal) <= kNames.size();
  return has_name ? fmt::format("{} (SIG{})", signal, kNames.at(static_cast<std::size_t>(signal) - 1))
                  : std::to_string(signal);
}

std::string describe(const Cause& cause) {
  using Kind = Cause::Kind;
  if (cause.kind == Kind::NodeLost || cause.kind == Kind::NodeLeft) {
    return fmt::format("node {} ({}): {}", cause.group_rank, printable(cause.host), printable(cause.message));
  }
  const std::string who = fmt::format("rank {} (local rank {}{}) on {}", cause.rank, cause.local_rank,
                                      cause.pid > 0 ? fmt::format(", pid {}", cause.pid) : "", printable(cause.host));
  const std::string how = cause.kind == Kind::SetUp ? "could not be started"
                          : cause.signal > 0        ? "killed by signal " + signal_text(cause.signal)
                                                    : fmt::format("exit code {}", cause.exit_code);
  return fmt::format("{}: {}{}", who, how, cause.message.empty() ? "" : ": " + printable(cause.message));
}

}  // namespace rollcall::elastic

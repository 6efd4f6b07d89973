#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/store/messages.h"

namespace rollcall::store {

/// Whose request it is: the asking rank, and the number that it gave it.
struct Ticket {
  std::uint32_t rank = 0;
  std::uint64_t number = 0;

  auto operator<=>(const Ticket&) const = default;  // NOLINT(modernize-use-nullptr)
};

using Answers = std::vector<std::pair<Ticket, Answer>>;

/// What the keys, values and waiting requests of a world of this size may take at most, as Table::bytes() counts: a
/// group of Gloo's has an address of some 200 bytes for each pair of ranks, and a training a handful of groups; the
/// rest is for what does not grow with the world.
[[nodiscard]] constexpr std::size_t most_bytes(std::uint32_t world_size) {
  return (std::size_t{256} << 20) + std::size_t{1024} * world_size * world_size;
}

/// A world's keys, and the requests that wait for some. Does no I/O and knows no clock. Not thread-safe.
class Table {
 public:
  explicit Table(std::size_t most) : most_(most) {}

  /// Does what is asked. Returns all answers that are due now: to this request and, after it, to those that have waited
  /// for its keys, the oldest first. Refused is what would take more than the table may hold, and an addition to what
  /// is no number or beyond 64 bits; a request that is refused changes nothing. A quiet one that is not gets no answer.
  [[nodiscard]] Answers take(const Ticket& ticket, Request request);
  /// Nobody waits for the answer any longer.
  void forget(const Ticket& ticket);
  /// The same of all that `rank` asked.
  void forget_rank(std::uint32_t rank);

  /// Bytes of keys, values and waiting requests, with kEntry for each and for each key of a request.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  static constexpr std::size_t kEntry = 192;

 private:
  /// It is listed below one of its keys that is not there, keys[at].
  struct Waiting {
    Request request;
    std::size_t at = 0;
    std::size_t bytes = 0;
  };
  using WaitingOnes = std::map<Ticket, Waiting>;

  [[nodiscard]] std::optional<std::size_t> missing(const std::vector<std::string>& keys, std::size_t from) const;
  [[nodiscard]] Answer values_of(const Request& request) const;
  [[nodiscard]] std::optional<Answer> refuse(std::size_t more) const;
  void put(const std::string& key, std::string value);
  void wake(const std::string& key, Answers& answers);
  void go_on_waiting(const Ticket& ticket, Answers& answers);
  WaitingOnes::iterator drop(WaitingOnes::iterator waiting);

  [[nodiscard]] Answer set(Request& request, Answers& answers);
  [[nodiscard]] Answer add(const Request& request, Answers& answers);
  [[nodiscard]] Answer compare_set(Request& request, Answers& answers);
  [[nodiscard]] Answer append(const Request& request, Answers& answers);
  [[nodiscard]] Answer remove(const std::string& key);
  [[nodiscard]] std::optional<Answer> look(const Ticket& ticket, Request& request);
  [[nodiscard]] std::optional<Answer> carry_out(const Ticket& ticket, Request& request, Answers& answers);

  std::size_t most_;
  std::size_t bytes_ = 0;
  std::unordered_map<std::string, Value> values_;
  WaitingOnes waiting_;
  std::unordered_map<std::string, std::vector<Ticket>> listed_;  ///< by the key that they wait for next
};

}  // namespace rollcall::store

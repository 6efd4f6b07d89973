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

/// Identifies a request: the requesting rank and the number that it gave the request.
struct Ticket {
  std::uint32_t rank = 0;
  std::uint64_t number = 0;

  auto operator<=>(const Ticket&) const = default;  // NOLINT(modernize-use-nullptr)
};

using Answers = std::vector<std::pair<Ticket, Answer>>;

/// Returns the memory limit for the keys, values and waiting requests of a world of this size, as Table::bytes()
/// counts. Each Gloo group stores an address of some 200 bytes for each pair of ranks, and a training has a handful of
/// groups; the constant part is for what does not grow with the world.
[[nodiscard]] constexpr std::size_t most_bytes(std::uint32_t world_size) {
  return (std::size_t{256} << 20) + std::size_t{1024} * world_size * world_size;
}

/// The keys of a world and the requests that wait for them. Does no I/O and uses no clock. Not thread-safe.
class Table {
 public:
  explicit Table(std::size_t most) : most_(most) {}

  /// Carries out a request. Returns all answers that are now due: to this request and then to requests that waited for
  /// its keys, oldest first. Refuses what would exceed the memory limit, and an addition to a non-number or beyond 64
  /// bits. A refused request changes nothing. A quiet request that is not refused gets no answer.
  [[nodiscard]] Answers take(const Ticket& ticket, Request request);
  /// Cancels a waiting request.
  void forget(const Ticket& ticket);
  /// Cancels all waiting requests of `rank`.
  void forget_rank(std::uint32_t rank);

  /// Returns the bytes of keys, values and waiting requests, plus kEntry for each of them and for each key of a
  /// request.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  static constexpr std::size_t kEntry = 192;

 private:
  /// A waiting request; listed_ has it below keys[at], which does not exist yet.
  struct Waiting {
    Request request;
    std::size_t at = 0;
    std::size_t bytes = 0;
  };
  using WaitingRequests = std::map<Ticket, Waiting>;

  [[nodiscard]] std::optional<std::size_t> missing(const std::vector<std::string>& keys, std::size_t from) const;
  [[nodiscard]] Answer values_of(const Request& request) const;
  [[nodiscard]] std::optional<Answer> refuse(std::size_t more) const;
  void put(const std::string& key, std::string value);
  void wake(const std::string& key, Answers& answers);
  void continue_waiting(const Ticket& ticket, Answers& answers);
  WaitingRequests::iterator drop(WaitingRequests::iterator waiting);

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
  WaitingRequests waiting_;
  std::unordered_map<std::string, std::vector<Ticket>> listed_;  ///< by the key that they wait for next
};

}  // namespace rollcall::store

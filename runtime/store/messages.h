#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::store {

/// An operation on a world's keys. A value can be any bytes.
enum class Operation : std::uint8_t {
  Set,         ///< sets keys to as many values
  Get,         ///< returns the values of all keys once all exist
  Wait,        ///< waits until all keys exist
  Check,       ///< number: 1 where all keys exist, otherwise 0
  Add,         ///< adds a number to the key's decimal value, or to 0 where it has none; returns the sum
  CompareSet,  ///< sets values[1] where the key's value is values[0], or where it has none and values[0] is
               ///< empty; returns the new value, or values[0] where there is still none, as c10d's TCPStore does
  Append,      ///< appends values[0] to the key's value
  Remove,      ///< number: whether the key existed
  Count,       ///< number of keys
  Cancel,      ///< cancels the request of this number; has no answer
};

struct Request {
  Operation operation = Operation::Count;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};
  std::int64_t number = 0;
  bool quiet = false;  ///< Set and Append: answered only where it is refused
};

/// Shared by the table and by answers not yet sent.
using Value = std::shared_ptr<const std::string>;

struct Answer {
  enum class Status : std::uint8_t {
    Done,
    Refused,   ///< `refusal` has the reason
    TimedOut,  ///< no answer in time, or the wait was interrupted; never sent
    Gone,      ///< the store is closed, or its process is gone; never sent
  };

  Status status = Status::Done;
  std::vector<Value> values = {};
  std::int64_t number = 0;
  std::string refusal = {};
};

/// A request or an answer, with the number that the requesting process gave it.
template <typename Content>
struct Numbered {
  std::uint64_t number = 0;
  Content content;
};

/// The largest request in bytes. The trainer's largest value, a rank's part of a trace, has about 30 MB.
inline constexpr std::size_t kLongestRequest = std::size_t{64} << 20;

/// Returns the size of what encode() returns.
[[nodiscard]] std::size_t encoded_size(const Request& request);

[[nodiscard]] std::string encode(std::uint64_t number, const Request& request);
[[nodiscard]] std::string encode(std::uint64_t number, const Answer& answer);

/// Parses what encode() returns; unset for other bytes, and for a request without the keys and values that it needs.
[[nodiscard]] std::optional<Numbered<Request>> parse_request(std::string_view bytes);
[[nodiscard]] std::optional<Numbered<Answer>> parse_answer(std::string_view bytes);

}  // namespace rollcall::store

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::store {

/// What may be asked of a world's keys. A value is any bytes.
enum class Operation : std::uint8_t {
  Set,         ///< keys and as many values
  Get,         ///< the values of all keys, once they are there
  Wait,        ///< until all keys are there
  Check,       ///< number: 1 where all keys are there, else 0
  Add,         ///< number to the number that the key's value is in decimal, 0 where it has none: the sum
  CompareSet,  ///< values[1] where the key's value is values[0], or there is none and that is empty: the value then;
               ///< where there is none and stays none, values[0] as c10d's TCPStore says it
  Append,      ///< values[0] to the key's value
  Remove,      ///< number: whether the key was there
  Count,       ///< number: keys
  Cancel,      ///< nobody waits any longer for the request of this number; is not answered
};

struct Request {
  Operation operation = Operation::Count;
  std::vector<std::string> keys = {};
  std::vector<std::string> values = {};
  std::int64_t number = 0;
  bool quiet = false;  ///< of Set and Append: answered only where it is refused
};

/// Shared by the table and by answers that have not been sent.
using Value = std::shared_ptr<const std::string>;

struct Answer {
  enum class Status : std::uint8_t {
    Done,
    Refused,   ///< `refusal` says why
    TimedOut,  ///< nobody answered in time, or the wait was interrupted. Never sent
    Gone,      ///< the store is closed, or its process gone. Never sent
  };

  Status status = Status::Done;
  std::vector<Value> values = {};
  std::int64_t number = 0;
  std::string refusal = {};
};

/// A request or an answer with the number that the one who asks gave it.
template <typename Content>
struct Numbered {
  std::uint64_t number = 0;
  Content content;
};

/// Of a request: a rank's part of a trace, the longest value of the trainer's, has some 30 MB.
inline constexpr std::size_t kLongestRequest = std::size_t{64} << 20;

/// Bytes that encode() makes of it.
[[nodiscard]] std::size_t encoded_size(const Request& request);

[[nodiscard]] std::string encode(std::uint64_t number, const Request& request);
[[nodiscard]] std::string encode(std::uint64_t number, const Answer& answer);

/// Nothing for bytes that encode() does not make, or a request without the keys and values that its operation needs.
[[nodiscard]] std::optional<Numbered<Request>> parse_request(std::string_view bytes);
[[nodiscard]] std::optional<Numbered<Answer>> parse_answer(std::string_view bytes);

}  // namespace rollcall::store

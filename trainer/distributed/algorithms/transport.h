#pragma once

#include <cstddef>
#include <cstdint>

namespace rollcall::process_group {

/// What a message is told by; the same on both sides.
struct MessageName {
  std::uint32_t operation = 0;  ///< number of the collective in its group
  std::uint32_t message = 0;    ///< number of the message in it between these two ranks
};

/// A message under way. Null: it is through already.
using Request = void*;

enum class RequestState : std::uint8_t { UnderWay, Done, Failed };

/// What carries the messages of plans. Messages of equal names between the same two ranks do not exist. Not
/// thread-safe.
class Transport {
 public:
  virtual ~Transport() = default;

  /// `data` stays as it is until the request is done.
  [[nodiscard]] virtual Request send(std::uint32_t peer, MessageName name, const void* data, std::size_t bytes) = 0;
  /// `data` is complete once the request is done; fewer or more bytes than that are a failure.
  [[nodiscard]] virtual Request receive(std::uint32_t peer, MessageName name, void* data, std::size_t bytes) = 0;
  /// Releases the request unless it is under way.
  [[nodiscard]] virtual RequestState test(Request request) = 0;
};

}  // namespace rollcall::process_group

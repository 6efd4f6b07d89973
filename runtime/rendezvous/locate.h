#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/endpoint.h"
#include "runtime/rendezvous/secret.h"

namespace rollcall::rendezvous {

/// A possible location of rank 0.
struct Location {
  Endpoint endpoint;
  Secret secret;  ///< the world's secret, according to this location
};

/// The locations known now; asked for again before every round. `refusal`: why a location that was found is not
/// trusted.
struct Locations {
  std::vector<Location> locations = {};
  std::string refusal = {};
};
using LocationSource = std::function<Locations()>;

/// Why rank 0 was not found, at the location with the most informative answer; no endpoint where none was ever known.
struct NotFound {
  std::optional<Endpoint> endpoint = {};
  std::string reason = {};
};

/// Tries the locations in turn, repeatedly (with pauses of rest_after()): the first one in each round, the others after
/// 1 s, or as soon as another process listens there (ErrorKind::Mismatch). Ends when `ask` returns nothing, because
/// rank 0 has answered, or at the deadline.
[[nodiscard]] std::optional<NotFound> locate(const LocationSource& source, Clock::time_point deadline,
                                             const std::function<std::optional<Error>(const Location&)>& ask);

}  // namespace rollcall::rendezvous

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

/// Where rank 0 may be.
struct Place {
  Endpoint endpoint;
  Secret secret;  ///< the world's, as far as this place goes
};

/// What is known now of where rank 0 is; asked again before every round. `refusal`: why something that was found is not
/// believed.
struct Places {
  std::vector<Place> places = {};
  std::string refusal = {};
};
using PlaceSource = std::function<Places()>;

/// Why rank 0 was not found: at the place whose answer says most; none where no place was ever known.
struct NotFound {
  std::optional<Endpoint> endpoint = {};
  std::string reason = {};
};

/// Asks at the places in turn, again and again (rest_after() lies between): the first in each round, and the others
/// from 1 s on, or as soon as another one listens there (ErrorKind::Mismatch). Ends when `ask` returns nothing, since
/// rank 0 has answered, or at the deadline.
[[nodiscard]] std::optional<NotFound> seek(const PlaceSource& source, Clock::time_point deadline,
                                           const std::function<std::optional<Error>(const Place&)>& ask);

}  // namespace rollcall::rendezvous

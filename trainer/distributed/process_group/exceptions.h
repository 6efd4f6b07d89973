#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::process_group {

/// Who speaks in an error: "rank 3 of 4 on jwb0002".
struct Speaker {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;

  [[nodiscard]] std::string text() const;
};

/// The Error (Unavailable) of what LibTorch or the standard library throws when an allocation fails; nothing for any
/// other exception.
[[nodiscard]] std::optional<Error> out_of_memory(const std::exception& error);

/// Runs `work`, which calls c10d. What it throws becomes an Error (Unavailable): setting `setting`, value who speaks,
/// reason `what` and the first line of the exception, and the given action; a CollectiveFailure's own Error stays, and
/// so does that of out_of_memory().
[[nodiscard]] Result<void> catch_exceptions(const Speaker& speaker, const std::string& setting, const std::string& what,
                                            const std::string& action, const std::function<void()>& work);

}  // namespace rollcall::process_group

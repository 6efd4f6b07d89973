#pragma once

#include <string>

#include "runtime/network/network_view.h"

namespace rollcall::doctor {

/// The name that `address` leads back to (getnameinfo(3)); empty: none. May block as long as the resolver does.
[[nodiscard]] std::string reverse_name(const std::string& address);

}  // namespace rollcall::doctor

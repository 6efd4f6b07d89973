#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/network/network_view.h"

namespace rollcall::network {

/// The value of a library's interface variable.
struct InterfaceChoice {
  std::string value;   ///< empty: the variable stays unset
  std::string reason;  ///< a clause that explains the choice
};

/// Removes loopback interfaces and a route over one from the view, for a step on several machines, which they do not
/// connect. Pure.
[[nodiscard]] NetworkView without_loopback(NetworkView view);

/// Chooses an interface for a library that needs a full name (Gloo, TensorPipe). `setting` ("interface.gloo") is the
/// setting's name in messages, and `configured` its value. {"auto"} selects the interface that routes to the head node,
/// and {"none"} none. A list selects the first name that exists on this host, is up and has an address that is not
/// link-local. Errors (Unavailable): no name of the list qualifies. Pure.
[[nodiscard]] Result<InterfaceChoice> choose_interface(const std::string& setting,
                                                       const std::vector<std::string>& configured,
                                                       const NetworkView& view);

/// Chooses the interfaces for NCCL, which accepts a list of prefixes ("hsn"), of exact names after '=', or of excluded
/// ones after '^' (NCCL user guide, NCCL_SOCKET_IFNAME). Returns the configured list if an entry matches on this host.
[[nodiscard]] Result<InterfaceChoice> choose_interface_prefixes(const std::string& setting,
                                                                const std::vector<std::string>& configured,
                                                                const NetworkView& view);

}  // namespace rollcall::network

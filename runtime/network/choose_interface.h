#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/network/network_view.h"

namespace rollcall::network {

/// The value for a library's interface variable, and why. An empty value: leave the variable unset.
struct InterfaceChoice {
  std::string value;
  std::string reason;
};

/// The view for a step whose nodes are several machines: a loopback interface leads to none of the others, so neither
/// it nor a route over it may be chosen. Pure.
[[nodiscard]] NetworkView without_loopback(NetworkView view);

/// One interface for a library that takes concrete names only (Gloo, TensorPipe). `setting` ("interface.gloo") names
/// the setting in messages, `configured` is its value: {"auto"}: the one that routes to the head node; {"none"}:
/// nothing; otherwise the first that exists on this host, is up and has an address that is not link-local. Errors
/// (Unavailable): none of the configured ones is such a one. Pure.
[[nodiscard]] Result<InterfaceChoice> choose_interface(const std::string& setting,
                                                       const std::vector<std::string>& configured,
                                                       const NetworkView& view);

/// The same for NCCL, which takes several names, each a prefix ("hsn"), or exact with '=' in front of the list, or
/// excluded with '^' (NCCL user guide, NCCL_SOCKET_IFNAME): the configured list is handed on if one of it matches here.
[[nodiscard]] Result<InterfaceChoice> choose_interface_prefixes(const std::string& setting,
                                                                const std::vector<std::string>& configured,
                                                                const NetworkView& view);

}  // namespace rollcall::network

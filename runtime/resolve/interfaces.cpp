#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/network/choose_interface.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

using Chooser = Result<network::InterfaceChoice> (*)(const std::string&, const std::vector<std::string>&,
                                                     const network::NetworkView&);

struct Library {
  std::string_view variable;
  std::string_view setting;
  std::vector<std::string> settings::LaunchSettings::*configured;
  Chooser choose;
};

Result<network::InterfaceChoice> hand_on(const std::string&, const std::vector<std::string>& configured,
                                         const network::NetworkView&) {
  std::string list;
  for (const std::string& device : configured) {
    list += (list.empty() ? "" : ",") + device;
  }
  return network::InterfaceChoice{list == "none" ? "" : list, "as configured"};
}

constexpr std::array kLibraries{
    Library{env::kGlooInterface, "interface.gloo", &settings::LaunchSettings::gloo_interfaces,
            network::choose_interface},
    Library{"TP_SOCKET_IFNAME", "interface.gloo", &settings::LaunchSettings::gloo_interfaces,
            network::choose_interface},
    Library{"NCCL_SOCKET_IFNAME", "interface.nccl", &settings::LaunchSettings::nccl_interfaces,
            network::choose_interface_prefixes},
    Library{"UCX_NET_DEVICES", "interface.ucx", &settings::LaunchSettings::ucx_devices, hand_on},
};

bool needs_other_machines(const Inputs& inputs) {
  return inputs.facts.num_nodes > 1 && !inputs.settings.loopback_allowed;
}

/// Warns about a user's interface that does not work: Gloo fails late with "invalid argument" where the interface does
/// not exist, and waits half an hour for nodes that it cannot reach by a loopback interface.
void warn_if_useless(const Library& library, const std::string& users_value, const Inputs& inputs,
                     PatchBuilder& patch) {
  if (library.choose != &network::choose_interface || inputs.network.interfaces.empty()) {
    return;
  }
  for (const std::string& name : split(users_value, ',')) {
    const auto found = std::ranges::find(inputs.network.interfaces, name, &network::Interface::name);
    if (found == inputs.network.interfaces.end()) {
      patch.warn_of_this_node(
          fmt::format("{}: {}: is not an interface of {}", library.variable, name, inputs.network.host_name));
    } else if (found->loopback && needs_other_machines(inputs)) {
      patch.warn(fmt::format("{}: {}: is the loopback interface, which reaches no other node", library.variable, name));
    }
  }
}

Result<void> add_one(const Library& library, const network::NetworkView& view, const Inputs& inputs,
                     PatchBuilder& patch) {
  const auto users_value = patch.users(library.variable);
  if (users_value) {
    warn_if_useless(library, *users_value, inputs, patch);
  }
  const std::string setting(library.setting);
  const auto choice = library.choose(setting, inputs.settings.*library.configured, view);
  if (!choice && !users_value) {
    Error error = choice.error();
    error.of_this_node = true;  // the interface may be up on the other nodes
    return error;
  }
  if (choice && !choice->value.empty()) {
    const std::string origin = inputs.settings.given.is_default(library.setting) ? "network" : "setting " + setting;
    patch.propose({library.variable, choice->value, origin, choice->reason, library.setting});
  } else if (users_value) {
    patch.keep(library.variable, *users_value, true);
  }
  return {};
}

}  // namespace

Result<void> add_interfaces(const Inputs& inputs, PatchBuilder& patch) {
  const network::NetworkView view =
      needs_other_machines(inputs) ? network::without_loopback(inputs.network) : inputs.network;
  for (const Library& library : kLibraries) {
    RETURN_IF_ERROR(add_one(library, view, inputs, patch));
  }
  if (const std::string& plugin = inputs.settings.nccl_net; !plugin.empty()) {
    patch.propose({env::kNcclNet, plugin, "setting nccl.net", "as configured", "nccl.net"});
  }
  return {};
}

}  // namespace rollcall::resolve

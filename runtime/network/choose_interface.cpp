#include "runtime/network/choose_interface.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace rollcall::network {
namespace {

/// Returns whether an interface is up and has an address for other nodes. Link-local ones need a scope id, which no
/// library passes on.
bool is_usable(const Interface& interface) {
  return interface.up &&
         std::ranges::any_of(interface.addresses, [](const Address& address) { return !address.link_local; });
}

std::string names_of(const NetworkView& view) {
  std::vector<std::string> names;
  for (const Interface& interface : view.interfaces) {
    const char* const fault = !interface.up ? " (down)" : is_usable(interface) ? "" : " (without an address)";
    names.push_back(interface.name + fault);
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

Error none_exists(const std::string& setting, const std::vector<std::string>& configured, const NetworkView& view) {
  return fail(setting, fmt::format("{}", fmt::join(configured, ",")),
              "is not an interface that is up on " + view.host_name, fmt::format("choosing one of {}", names_of(view)),
              ErrorKind::Unavailable);
}

/// Returns the choice for "auto" and "none", or nothing for a list of names.
std::optional<InterfaceChoice> fixed_words(const std::vector<std::string>& configured, const NetworkView& view) {
  const std::string word = configured.size() == 1 ? configured.front() : "";
  if (configured.empty() || word == "none") {
    return InterfaceChoice{"", "none is configured"};
  }
  if (word == "auto" && view.route_interface) {
    return InterfaceChoice{*view.route_interface, "it routes to the other nodes of the step"};
  }
  if (word == "auto") {
    return InterfaceChoice{"", "no route to the other nodes is known"};
  }
  return std::nullopt;
}

template <typename Matches>
bool any_usable(const NetworkView& view, Matches matches) {
  return std::any_of(view.interfaces.begin(), view.interfaces.end(),
                     [&](const Interface& interface) { return is_usable(interface) && matches(interface.name); });
}

}  // namespace

NetworkView without_loopback(NetworkView view) {
  const auto is_loopback_route = [&](const Interface& interface) {
    return interface.loopback && interface.name == view.route_interface;
  };
  if (std::ranges::any_of(view.interfaces, is_loopback_route)) {
    view.route_interface.reset();
  }
  std::erase_if(view.interfaces, [](const Interface& interface) { return interface.loopback; });
  return view;
}

Result<InterfaceChoice> choose_interface(const std::string& setting, const std::vector<std::string>& configured,
                                         const NetworkView& view) {
  if (const auto fixed = fixed_words(configured, view)) {
    return *fixed;
  }
  for (const std::string& name : configured) {
    if (any_usable(view, [&](const std::string& own) { return own == name; })) {
      return InterfaceChoice{name, "the first configured interface that is up on " + view.host_name};
    }
  }
  return none_exists(setting, configured, view);
}

Result<InterfaceChoice> choose_interface_prefixes(const std::string& setting,
                                                  const std::vector<std::string>& configured, const NetworkView& view) {
  if (const auto fixed = fixed_words(configured, view)) {
    return *fixed;
  }
  const std::string list = fmt::format("{}", fmt::join(configured, ","));
  if (list.starts_with('^')) {
    return InterfaceChoice{list, "all except the configured interfaces"};
  }
  for (std::string_view prefix : configured) {
    prefix.remove_prefix(prefix.starts_with('=') ? 1 : 0);
    if (any_usable(view, [&](const std::string& own) { return own.starts_with(prefix); })) {
      return InterfaceChoice{list, "as configured"};
    }
  }
  return none_exists(setting, configured, view);
}

}  // namespace rollcall::network

#include "runtime/resolve/master_address.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "runtime/contract/env_vars.h"
#include "runtime/resolve/patch_builder.h"

namespace rollcall::resolve {
namespace {

using network::Address;
using network::ResolvedName;

constexpr std::string_view kTemplate = "host.template";

/// What an address is judged by.
struct Place {
  const job::JobFacts& facts;
  std::string this_host;  ///< for messages
  bool loopback_works;

  [[nodiscard]] bool is_usable(const Address& address) const {
    return !address.link_local && (!address.loopback || loopback_works);
  }
};

Place place_of(const job::JobFacts& facts, const network::NetworkView& network, bool loopback_allowed) {
  const bool this_is_head = facts.rank == 0 || (!facts.head_host.empty() && facts.head_host == facts.this_host);
  return {facts, facts.this_host.empty() ? network.host_name : facts.this_host,
          facts.num_nodes == 1 || loopback_allowed || this_is_head};
}

std::string describe(const std::vector<Address>& addresses) {
  std::vector<std::string> texts;
  texts.reserve(addresses.size());
  for (const Address& address : addresses) {
    texts.push_back(address.text);
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// "does not resolve on jwb0002 (Name or service not known)", "is loopback only (127.0.1.1) on jwb0002".
std::string why_unusable(const ResolvedName& name, const Place& place) {
  if (name.addresses.empty()) {
    const std::string detail = name.error.empty() ? "" : " (" + name.error + ")";
    return fmt::format("does not resolve on {}{}", place.this_host, detail);
  }
  const bool loopback =
      std::any_of(name.addresses.begin(), name.addresses.end(), [](const Address& a) { return a.loopback; });
  return fmt::format("resolves to {} only ({}) on {}", loopback ? "loopback" : "link-local addresses",
                     describe(name.addresses), place.this_host);
}

Error no_usable_name(const std::vector<ResolvedName>& names, const Place& place) {
  if (names.empty()) {
    return fail("host.template", "", "gives no name for the head node", "setting it to, say, {host}",
                ExitCode::Unavailable);
  }
  std::string reason = why_unusable(names.front(), place);
  for (std::size_t i = 1; i < names.size(); ++i) {
    reason += fmt::format(", and {} {}", names[i].name, why_unusable(names[i], place));
  }
  const auto is_loopback = [](const ResolvedName& name) {
    return std::any_of(name.addresses.begin(), name.addresses.end(), [](const Address& a) { return a.loopback; });
  };
  const bool loopback = std::any_of(names.begin(), names.end(), is_loopback);
  Error error = fail(
      "host.template", names.front().name, reason,
      loopback ? "a template whose name resolves across nodes, or host.loopback=allow where all nodes are one machine"
               : "a template whose name resolves, checking it with getent hosts NAME",
      ExitCode::Unavailable);
  error.of_this_node = loopback;  // rank 0 takes its own loopback address
  return error;
}

MasterAddressChoice take(const ResolvedName& name, const Place& place) {
  const auto usable = [&](const Address& address) { return place.is_usable(address); };
  const Address& first = *std::find_if(name.addresses.begin(), name.addresses.end(), usable);
  const std::string rank0 = place.facts.head_host.empty() ? "the head node" : "rank 0 is on " + place.facts.head_host;
  if (std::all_of(name.addresses.begin(), name.addresses.end(), usable)) {
    return {name.name, fmt::format("{}, {} resolves to {}", rank0, name.name, describe(name.addresses)), {}};
  }
  return {first.text,
          fmt::format("{}, the usable one of {}'s addresses {}", rank0, name.name, describe(name.addresses)),
          {}};
}

/// A kept MASTER_ADDR of the user's is right where it is one of the head node's names or addresses.
void warn_if_elsewhere(const std::string& value, const Inputs& inputs, PatchBuilder& patch) {
  if (inputs.facts.head_host.empty() || value == inputs.facts.head_host || inputs.network.head_names.empty()) {
    return;
  }
  for (const ResolvedName& name : inputs.network.head_names) {
    bool same = name.name == value;
    for (const Address& address : name.addresses) {
      same = same || address.text == value;
    }
    if (same) {
      return;
    }
  }
  patch.warn(fmt::format("MASTER_ADDR: {}: is kept because you set it, though rank 0 is on {}", value,
                         inputs.facts.head_host));
}

}  // namespace

Result<MasterAddressChoice> choose_master_address(const job::JobFacts& facts, const network::NetworkView& network,
                                                  bool loopback_allowed) {
  const Place place = place_of(facts, network, loopback_allowed);
  const std::vector<ResolvedName>& names = network.head_names;
  const auto has_usable = [&](const ResolvedName& name) {
    return std::any_of(name.addresses.begin(), name.addresses.end(),
                       [&](const Address& address) { return place.is_usable(address); });
  };
  const auto found = std::find_if(names.begin(), names.end(), has_usable);
  if (found == names.end()) {
    if (facts.num_nodes > 1) {
      return no_usable_name(names, place);
    }
    MasterAddressChoice alone{"127.0.0.1", "the step has one node", {}};
    for (const ResolvedName& name : names) {
      alone.warnings.push_back(fmt::format("host.template: {}: {}; 127.0.0.1 is used on this one node", name.name,
                                           why_unusable(name, place)));
    }
    return alone;
  }
  MasterAddressChoice choice = take(*found, place);
  for (auto skipped = names.begin(); skipped != found; ++skipped) {
    choice.warnings.push_back(fmt::format("host.template: {}: {}; {} is used instead", skipped->name,
                                          why_unusable(*skipped, place), found->name));
  }
  return choice;
}

Result<void> add_master_address(const Inputs& inputs, PatchBuilder& patch) {
  if (keep_known(env::kMasterAddr, kTemplate, inputs, patch)) {
    if (const auto value = patch.users(env::kMasterAddr)) {
      warn_if_elsewhere(*value, inputs, patch);
    }
    return {};
  }
  if (inputs.facts.head_host.empty() && inputs.facts.num_nodes > 1) {
    patch.warn("MASTER_ADDR: is not set, because nothing says where rank 0 is");
    return {};
  }
  const auto choice =
      choose_master_address(inputs.facts, inputs.network, inputs.settings.text("host.loopback") == "allow");
  if (!choice) {
    return choice.error();
  }
  for (const std::string& warning : choice->warnings) {
    patch.warn(warning);
  }
  const bool templated = inputs.settings.text(kTemplate) != "{host}";
  const std::string rule = templated ? fmt::format(", rule {}", inputs.settings.text(kTemplate)) : "";
  patch.propose(
      {env::kMasterAddr, choice->value, templated ? "setting host.template" : "network", choice->reason + rule});
  return {};
}

}  // namespace rollcall::resolve

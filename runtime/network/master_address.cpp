#include "runtime/network/master_address.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace rollcall::network {
namespace {

bool is_usable(const Address& address, const MasterAddressFacts& facts) {
  const bool loopback_works = facts.num_nodes == 1 || facts.loopback_allowed || facts.this_is_head;
  return !address.link_local && (!address.loopback || loopback_works);
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
std::string why_unusable(const ResolvedName& name, const MasterAddressFacts& facts) {
  if (name.addresses.empty()) {
    const std::string detail = name.error.empty() ? "" : " (" + name.error + ")";
    return fmt::format("does not resolve on {}{}", facts.this_host, detail);
  }
  const bool loopback =
      std::any_of(name.addresses.begin(), name.addresses.end(), [](const Address& a) { return a.loopback; });
  return fmt::format("resolves to {} only ({}) on {}", loopback ? "loopback" : "link-local addresses",
                     describe(name.addresses), facts.this_host);
}

Error no_usable_name(const std::vector<ResolvedName>& names, const MasterAddressFacts& facts) {
  if (names.empty()) {
    return fail("host.template", "", "gives no name for the head node", "setting it to, say, {host}",
                ExitCode::Unavailable);
  }
  std::string reason = why_unusable(names.front(), facts);
  for (std::size_t i = 1; i < names.size(); ++i) {
    reason += fmt::format(", and {} {}", names[i].name, why_unusable(names[i], facts));
  }
  const auto is_loopback = [](const ResolvedName& name) {
    return std::any_of(name.addresses.begin(), name.addresses.end(), [](const Address& a) { return a.loopback; });
  };
  const bool loopback = std::any_of(names.begin(), names.end(), is_loopback);
  return fail(
      "host.template", names.front().name, reason,
      loopback ? "a template whose name resolves across nodes, or host.loopback=allow where all nodes are one machine"
               : "a template whose name resolves, checking it with getent hosts NAME",
      ExitCode::Unavailable);
}

MasterAddressChoice take(const ResolvedName& name, const MasterAddressFacts& facts) {
  const auto usable = [&](const Address& address) { return is_usable(address, facts); };
  const Address& first = *std::find_if(name.addresses.begin(), name.addresses.end(), usable);
  const std::string rank0 = facts.head_host.empty() ? "the head node" : "rank 0 is on " + facts.head_host;
  if (std::all_of(name.addresses.begin(), name.addresses.end(), usable)) {
    return {name.name, fmt::format("{}, {} resolves to {}", rank0, name.name, describe(name.addresses)), {}};
  }
  return {first.text,
          fmt::format("{}, the usable one of {}'s addresses {}", rank0, name.name, describe(name.addresses)),
          {}};
}

}  // namespace

Result<MasterAddressChoice> choose_master_address(const MasterAddressFacts& facts,
                                                  const std::vector<ResolvedName>& names) {
  const auto has_usable = [&](const ResolvedName& name) {
    return std::any_of(name.addresses.begin(), name.addresses.end(),
                       [&](const Address& address) { return is_usable(address, facts); });
  };
  const auto found = std::find_if(names.begin(), names.end(), has_usable);
  if (found == names.end()) {
    if (facts.num_nodes > 1) {
      return no_usable_name(names, facts);
    }
    MasterAddressChoice alone{"127.0.0.1", "the step has one node", {}};
    for (const ResolvedName& name : names) {
      alone.warnings.push_back(fmt::format("host.template: {}: {}; 127.0.0.1 is used on this one node", name.name,
                                           why_unusable(name, facts)));
    }
    return alone;
  }
  MasterAddressChoice choice = take(*found, facts);
  for (auto skipped = names.begin(); skipped != found; ++skipped) {
    choice.warnings.push_back(fmt::format("host.template: {}: {}; {} is used instead", skipped->name,
                                          why_unusable(*skipped, facts), found->name));
  }
  return choice;
}

}  // namespace rollcall::network

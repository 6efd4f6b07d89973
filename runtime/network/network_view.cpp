#include "runtime/network/network_view.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>

#include "runtime/base/child_process.h"
#include "runtime/base/environment.h"
#include "runtime/base/first_on_host.h"
#include "runtime/base/result.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::network {
namespace {

/// Parses "17500-17503" or "17500"; nothing for other texts.
std::optional<PortRange> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const auto first = parse_integer<std::uint16_t>(text.substr(0, dash));
  const auto last = dash == text.npos ? first : parse_integer<std::uint16_t>(text.substr(dash + 1));
  const bool sound = first && last && *first > 0 && *first <= *last;
  return sound ? std::optional(PortRange{*first, *last}) : std::nullopt;
}

}  // namespace

std::optional<std::vector<PortRange>> parse_port_list(std::string_view text) {
  std::vector<PortRange> ranges;
  for (const std::string& part : split(text, ',')) {
    const std::optional<PortRange> range = parse_range(part);
    if (!range) {
      return std::nullopt;
    }
    ranges.push_back(*range);
  }
  return ranges;
}

bool EphemeralPorts::contains(std::uint16_t port) const {
  return range.contains(port) && std::ranges::none_of(reserved, [&](PortRange kept) { return kept.contains(port); });
}

EphemeralPorts ephemeral_ports() {
  EphemeralPorts ports{.range = {32768, 60999}};
  std::ifstream range("/proc/sys/net/ipv4/ip_local_port_range");
  if (PortRange read; range >> read.first >> read.last && read.first > 0 && read.first <= read.last) {
    ports.range = read;
  }
  std::ifstream reserved("/proc/sys/net/ipv4/ip_local_reserved_ports");
  if (std::string list; reserved >> list) {
    ports.reserved = parse_port_list(list).value_or(ports.reserved);
  }
  return ports;
}

namespace {

void add_unless_present(std::vector<Address>& addresses, const Address& address) {
  const auto same = [&](const Address& other) { return other.text == address.text; };
  if (std::none_of(addresses.begin(), addresses.end(), same)) {
    addresses.push_back(address);
  }
}

bool usable_across_nodes(const Address& address) { return !address.loopback && !address.link_local; }

/// Fills `storage` with `address` and the discard port. Returns its length, or 0 where the address is invalid.
socklen_t fill(sockaddr_storage& storage, const Address& address) {
  constexpr in_port_t kDiscard = 9;
  if (address.ipv4) {
    sockaddr_in ipv4{};
    ipv4.sin_family = AF_INET;
    ipv4.sin_port = htons(kDiscard);
    const bool parsed = inet_pton(AF_INET, address.text.c_str(), &ipv4.sin_addr) == 1;
    std::memcpy(&storage, &ipv4, sizeof ipv4);
    return parsed ? sizeof ipv4 : 0;
  }
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ipv6.sin6_port = htons(kDiscard);
  const bool parsed = inet_pton(AF_INET6, address.text.c_str(), &ipv6.sin6_addr) == 1;
  std::memcpy(&storage, &ipv6, sizeof ipv6);
  return parsed ? sizeof ipv6 : 0;
}

/// Returns the source address that the kernel would use for `target`.
std::optional<Address> source_towards(const Address& target) {
  sockaddr_storage storage{};
  socklen_t length = fill(storage, target);
  const int datagram = socket(target.ipv4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (datagram < 0) {
    return std::nullopt;
  }
  auto* const raw = reinterpret_cast<sockaddr*>(&storage);
  bool known = length > 0 && connect(datagram, raw, length) == 0;
  length = sizeof storage;
  known = known && getsockname(datagram, raw, &length) == 0;
  close(datagram);
  return known ? from_sockaddr(raw) : std::nullopt;
}

std::optional<std::string> owner(const Address& address, const std::vector<Interface>& interfaces) {
  for (const Interface& interface : interfaces) {
    for (const Address& own : interface.addresses) {
      if (own.text == address.text) {
        return interface.name;
      }
    }
  }
  // All of 127/8 belongs to the loopback interface, which lists only 127.0.0.1.
  const auto is_loopback = [](const Interface& interface) { return interface.loopback; };
  const auto loopback = std::find_if(interfaces.begin(), interfaces.end(), is_loopback);
  return address.loopback && loopback != interfaces.end() ? std::optional(loopback->name) : std::nullopt;
}

/// Looks up names until one is usable, and returns all results.
std::vector<ResolvedName> resolve_until_usable(const std::vector<std::string>& names, bool loopback_usable,
                                               const LookUp& look_up) {
  const auto usable = [&](const Address& address) {
    return usable_across_nodes(address) || (address.loopback && loopback_usable);
  };
  std::vector<ResolvedName> tried;
  for (const std::string& name : names) {
    tried.push_back(look_up(name));
    const std::vector<Address>& addresses = tried.back().addresses;
    if (std::any_of(addresses.begin(), addresses.end(), usable)) {
      break;
    }
  }
  return tried;
}

/// Returns the address for a query of the routing table: the first usable one, or else a loopback address.
std::optional<Address> route_target(const std::vector<ResolvedName>& names) {
  std::optional<Address> loopback;
  for (const ResolvedName& name : names) {
    for (const Address& address : name.addresses) {
      if (usable_across_nodes(address)) {
        return address;
      }
      if (address.loopback && !loopback) {
        loopback = address;
      }
    }
  }
  return loopback;
}

Address from_ipv4(in_addr address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &address, text.data(), text.size());
  const std::uint32_t bits = ntohl(address.s_addr);
  return Address{text.data(), true, (bits >> 24) == 127, (bits >> 16) == 0xa9feU};
}

Address from_ipv6(const in6_addr& address) {
  if (IN6_IS_ADDR_V4MAPPED(&address) != 0) {
    in_addr inner{};
    std::memcpy(&inner, &address.s6_addr[12], sizeof inner);
    return from_ipv4(inner);
  }
  std::array<char, INET6_ADDRSTRLEN> text{};
  inet_ntop(AF_INET6, &address, text.data(), text.size());
  return Address{text.data(), false, IN6_IS_ADDR_LOOPBACK(&address) != 0, IN6_IS_ADDR_LINKLOCAL(&address) != 0};
}

}  // namespace

namespace {

constexpr std::string_view kNodeAddress = "nodeaddr:";

ResolvedName look_up(const std::string& name) {
  ResolvedName resolved;
  resolved.name = name;
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(name.c_str(), nullptr, &hints, &list);
  if (error != 0) {
    resolved.error = error == EAI_SYSTEM ? errno_text(errno) : gai_strerror(error);
    return resolved;
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  resolved.addresses = addresses_in(list);
  return resolved;
}

constexpr std::chrono::seconds kPatience{5};

Result<std::string> ask_scontrol(const std::string& node) {
  ASSIGN_OR_RETURN(const std::string answer, output_of({"scontrol", "--oneliner", "show", "node", node},
                                                       Environment::of_this_process(), kPatience));
  constexpr std::string_view kKey = " NodeAddr=";
  const std::size_t at = answer.find(kKey);
  const std::size_t begin = at == std::string::npos ? answer.size() : at + kKey.size();
  return answer.substr(begin, answer.find_first_of(" \n", begin) - begin);
}

}  // namespace

ResolvedName resolve_name(const std::string& name) {
  const auto ask = [](const std::string& node) -> Result<std::string> {
    const Environment environment = Environment::of_this_process();
    const std::string step =
        environment.get(env::kSlurmJobId).value_or("") + "." + environment.get(env::kSlurmStepId).value_or("");
    std::optional<Result<std::string>> own;
    // The tasks of a step share one answer. A task that gets an empty one asks itself, because a failure may be
    // transient.
    const std::string shared = ask_once_per_host("address-" + step + "-" + node, kPatience, [&] {
      own = ask_scontrol(node);
      return *own ? **own : "";
    });
    return own ? *own : shared.empty() ? ask_scontrol(node) : Result<std::string>(shared);
  };
  return resolve_name_by(ask, name);
}

ResolvedName resolve_name_by(const AskNodeAddress& ask, const std::string& name) {
  if (!name.starts_with(kNodeAddress)) {
    return look_up(name);
  }
  const Result<std::string> address = ask(name.substr(kNodeAddress.size()));
  if (!address || address->empty()) {
    return {name, {}, "Slurm has no address for this node" + (address ? "" : ": " + address.error().reason)};
  }
  ResolvedName resolved = look_up(*address);
  resolved.name = name;
  return resolved;
}

std::string name_for_programs(const ResolvedName& name) {
  return name.name.starts_with(kNodeAddress) && !name.addresses.empty() ? name.addresses.front().text : name.name;
}

std::vector<Address> addresses_in(const addrinfo* list) {
  std::vector<Address> addresses;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    if (const auto address = from_sockaddr(entry->ai_addr)) {
      add_unless_present(addresses, *address);
    }
  }
  std::stable_partition(addresses.begin(), addresses.end(), [](const Address& a) { return a.ipv4; });
  return addresses;
}

std::vector<Interface> list_interfaces() {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    return {};
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, freeifaddrs);
  std::vector<Interface> interfaces;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const std::string name = entry->ifa_name;
    const auto same = [&](const Interface& interface) { return interface.name == name; };
    auto found = std::find_if(interfaces.begin(), interfaces.end(), same);
    if (found == interfaces.end()) {
      constexpr unsigned kUp = IFF_UP | IFF_RUNNING;
      interfaces.push_back({name, (entry->ifa_flags & kUp) == kUp, (entry->ifa_flags & IFF_LOOPBACK) != 0, {}});
      found = std::prev(interfaces.end());
    }
    if (const auto address = from_sockaddr(entry->ifa_addr)) {
      add_unless_present(found->addresses, *address);
    }
  }
  return interfaces;
}

std::optional<std::string> route_interface(const Address& address, const std::vector<Interface>& interfaces) {
  const std::optional<Address> source = source_towards(address);
  return source ? owner(*source, interfaces) : std::nullopt;
}

NetworkView observe(const HeadNode& head, const std::vector<std::string>& peer_names, const LookUp& look_up) {
  NetworkView view;
  view.host_name = this_host_name();
  view.interfaces = list_interfaces();
  view.ephemeral_ports = ephemeral_ports();
  view.head_names = resolve_until_usable(head.names, head.loopback_usable, look_up);
  std::optional<Address> target = route_target(view.head_names);
  // The address of the head's name gives the interface, unless it is loopback here (127.0.1.1 in /etc/hosts) or on no
  // interface. Only then a second look-up is needed.
  const bool on_an_interface =
      target && (usable_across_nodes(*target) || head.loopback_usable) && owner(*target, view.interfaces);
  if (head.is_this_host && !on_an_interface && !peer_names.empty()) {
    target = route_target(resolve_until_usable(peer_names, head.loopback_usable, look_up));
  }
  if (target) {
    view.route_interface = route_interface(*target, view.interfaces);
  }
  return view;
}

std::optional<Address> from_sockaddr(const sockaddr* address) {
  if (address == nullptr) {
    return std::nullopt;
  }
  if (address->sa_family == AF_INET) {
    sockaddr_in ipv4{};
    std::memcpy(&ipv4, address, sizeof ipv4);
    return from_ipv4(ipv4.sin_addr);
  }
  if (address->sa_family == AF_INET6) {
    sockaddr_in6 ipv6{};
    std::memcpy(&ipv6, address, sizeof ipv6);
    return from_ipv6(ipv6.sin6_addr);
  }
  return std::nullopt;
}

std::vector<std::string> candidate_names(std::string_view host_template, std::string_view host) {
  constexpr std::string_view kPlaceholder = "{host}";
  std::string name(host_template);
  if (name == kNodeAddressTemplate) {
    name = std::string(kNodeAddress) + std::string(kPlaceholder);
  }
  std::size_t at = name.find(kPlaceholder);
  const bool about_host = at != std::string::npos;
  while (at != std::string::npos) {
    name.replace(at, kPlaceholder.size(), host);
    at = name.find(kPlaceholder, at + host.size());
  }
  std::vector<std::string> names;
  if (!name.empty() && !(about_host && host.empty())) {
    names.push_back(name);
  }
  if (!host.empty() && name != host) {
    names.emplace_back(host);
  }
  return names;
}

}  // namespace rollcall::network

#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "runtime/doctor/facts.h"
#include "runtime/network/network_view.h"

namespace rollcall::doctor {

/// One fact: where it is kept, and the name under which it travels.
template <auto Place>
struct Fact {
  std::string_view name;
};

/// The one table of what ranks observe: the members of each structure of facts.h. Observation (observe/task.cpp) and
/// the wire's JSON (wire/message.cpp) go through it. A new member without a row does not compile (lists_all_facts), nor
/// does a row of NodeFacts or TaskFacts that nobody observes.
template <typename Owner>
inline constexpr std::nullptr_t kFacts = nullptr;

// NOLINTBEGIN(bugprone-macro-parentheses): members' names, which take none
#define FACT(member) Fact<&Of::member>{#member},
/// FACTS(STRUCTURE, MEMBER...): each travels under its own name.
#define FACTS(Structure, ...)                                                        \
  template <>                                                                        \
  inline constexpr auto kFacts<Structure> = [] {                                     \
    using Of = Structure;                                                            \
    return std::tuple{NLOHMANN_JSON_EXPAND(NLOHMANN_JSON_PASTE(FACT, __VA_ARGS__))}; \
  }();
// NOLINTEND(bugprone-macro-parentheses)

FACTS(network::Address, text, ipv4, loopback, link_local)
FACTS(network::ResolvedName, name, addresses, error)
FACTS(NameFacts, own, head, reverse_address, reverse_name, reverse_name_leads_back)
FACTS(InterfaceFacts, name, up, loopback, megabits)
FACTS(InterfaceUse, setting, value, error)
FACTS(Device, name, numa, active, gigabits)
FACTS(GpuFacts, visible, openable)
FACTS(FolderFacts, path, error, free_bytes, total_bytes, free_inodes, total_inodes, purge_warning)
FACTS(VenvFacts, path, version, error)
FACTS(Versions, rollcall, slurm, kernel, glibc, pmix, plugin, profile, program)
FACTS(NodeFacts, names, interfaces, interface_uses, route_interface, gpus, adapters, slurm_gpus, scratch, venv,
      versions, shm_bytes, cores, bench_program)
FACTS(HeadFacts, endpoint, error, used, silent_addresses)
FACTS(TaskFacts, rank, local_rank, node_rank, host, cores, numa_nodes, gpus, locked_memory, resolve_error, warnings,
      environment_set, head, ring_port, ring_addresses, first_on_node, node)
#undef FACTS
#undef FACT

/// Structures that have a table.
template <typename Owner>
concept HasFacts = !std::is_null_pointer_v<std::remove_cv_t<decltype(kFacts<Owner>)>>;

/// Calls visit(fact) for each row of the table.
template <HasFacts Owner, typename Visit>
constexpr void for_each_fact(const Visit& visit) {
  std::apply([&](const auto&... facts) { (visit(facts), ...); }, kFacts<Owner>);
}

/// In place of a member's value where only the number of members is asked for.
struct AnyValue {
  template <typename Value>
  operator Value() const;  // NOLINT(google-explicit-constructor): it initialises members
};

/// How many members the aggregate has: as many as it takes values.
template <typename Owner, typename... Values>
consteval std::size_t member_count() {
  if constexpr (requires { Owner{Values{}..., AnyValue{}}; }) {
    return member_count<Owner, Values..., AnyValue>();
  } else {
    return sizeof...(Values);
  }
}

template <HasFacts Owner>
inline constexpr bool lists_all_facts = std::tuple_size_v<std::remove_cv_t<decltype(kFacts<Owner>)>> ==
                                        member_count<Owner>();

}  // namespace rollcall::doctor

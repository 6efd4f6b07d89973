#pragma once

#include <cstddef>
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

template <>
inline constexpr std::tuple kFacts<network::Address>{
    Fact<&network::Address::text>{"text"}, Fact<&network::Address::ipv4>{"ipv4"},
    Fact<&network::Address::loopback>{"loopback"}, Fact<&network::Address::link_local>{"link_local"}};

template <>
inline constexpr std::tuple kFacts<network::ResolvedName>{Fact<&network::ResolvedName::name>{"name"},
                                                          Fact<&network::ResolvedName::addresses>{"addresses"},
                                                          Fact<&network::ResolvedName::error>{"error"}};

template <>
inline constexpr std::tuple kFacts<NameFacts>{Fact<&NameFacts::own>{"own"}, Fact<&NameFacts::head>{"head"},
                                              Fact<&NameFacts::reverse_address>{"reverse_address"},
                                              Fact<&NameFacts::reverse_name>{"reverse_name"},
                                              Fact<&NameFacts::reverse_name_leads_back>{"reverse_name_leads_back"}};

template <>
inline constexpr std::tuple kFacts<InterfaceFacts>{Fact<&InterfaceFacts::name>{"name"}, Fact<&InterfaceFacts::up>{"up"},
                                                   Fact<&InterfaceFacts::loopback>{"loopback"},
                                                   Fact<&InterfaceFacts::megabits>{"megabits"}};

template <>
inline constexpr std::tuple kFacts<InterfaceUse>{
    Fact<&InterfaceUse::setting>{"setting"}, Fact<&InterfaceUse::value>{"value"}, Fact<&InterfaceUse::error>{"error"}};

template <>
inline constexpr std::tuple kFacts<Device>{Fact<&Device::name>{"name"}, Fact<&Device::numa>{"numa"},
                                           Fact<&Device::active>{"active"}, Fact<&Device::gigabits>{"gigabits"}};

template <>
inline constexpr std::tuple kFacts<GpuFacts>{Fact<&GpuFacts::visible>{"visible"},
                                             Fact<&GpuFacts::openable>{"openable"}};

template <>
inline constexpr std::tuple kFacts<FolderFacts>{Fact<&FolderFacts::path>{"path"},
                                                Fact<&FolderFacts::error>{"error"},
                                                Fact<&FolderFacts::free_bytes>{"free_bytes"},
                                                Fact<&FolderFacts::total_bytes>{"total_bytes"},
                                                Fact<&FolderFacts::free_inodes>{"free_inodes"},
                                                Fact<&FolderFacts::total_inodes>{"total_inodes"},
                                                Fact<&FolderFacts::purge_warning>{"purge_warning"}};

template <>
inline constexpr std::tuple kFacts<VenvFacts>{Fact<&VenvFacts::path>{"path"}, Fact<&VenvFacts::version>{"version"},
                                              Fact<&VenvFacts::error>{"error"}};

template <>
inline constexpr std::tuple kFacts<Versions>{
    Fact<&Versions::rollcall>{"rollcall"}, Fact<&Versions::slurm>{"slurm"},    Fact<&Versions::kernel>{"kernel"},
    Fact<&Versions::glibc>{"glibc"},       Fact<&Versions::pmix>{"pmix"},      Fact<&Versions::plugin>{"plugin"},
    Fact<&Versions::profile>{"profile"},   Fact<&Versions::program>{"program"}};

template <>
inline constexpr std::tuple kFacts<NodeFacts>{Fact<&NodeFacts::names>{"names"},
                                              Fact<&NodeFacts::interfaces>{"interfaces"},
                                              Fact<&NodeFacts::interface_uses>{"interface_uses"},
                                              Fact<&NodeFacts::route_interface>{"route_interface"},
                                              Fact<&NodeFacts::gpus>{"gpus"},
                                              Fact<&NodeFacts::adapters>{"adapters"},
                                              Fact<&NodeFacts::slurm_gpus>{"slurm_gpus"},
                                              Fact<&NodeFacts::scratch>{"scratch"},
                                              Fact<&NodeFacts::venv>{"venv"},
                                              Fact<&NodeFacts::versions>{"versions"},
                                              Fact<&NodeFacts::shm_bytes>{"shm_bytes"},
                                              Fact<&NodeFacts::cores>{"cores"},
                                              Fact<&NodeFacts::bench_program>{"bench_program"}};

template <>
inline constexpr std::tuple kFacts<HeadFacts>{Fact<&HeadFacts::endpoint>{"endpoint"}, Fact<&HeadFacts::error>{"error"},
                                              Fact<&HeadFacts::used>{"used"}};

template <>
inline constexpr std::tuple kFacts<TaskFacts>{Fact<&TaskFacts::rank>{"rank"},
                                              Fact<&TaskFacts::local_rank>{"local_rank"},
                                              Fact<&TaskFacts::node_rank>{"node_rank"},
                                              Fact<&TaskFacts::host>{"host"},
                                              Fact<&TaskFacts::cores>{"cores"},
                                              Fact<&TaskFacts::numa_nodes>{"numa_nodes"},
                                              Fact<&TaskFacts::gpus>{"gpus"},
                                              Fact<&TaskFacts::locked_memory>{"locked_memory"},
                                              Fact<&TaskFacts::resolve_error>{"resolve_error"},
                                              Fact<&TaskFacts::warnings>{"warnings"},
                                              Fact<&TaskFacts::environment_set>{"environment_set"},
                                              Fact<&TaskFacts::head>{"head"},
                                              Fact<&TaskFacts::ring_port>{"ring_port"},
                                              Fact<&TaskFacts::ring_addresses>{"ring_addresses"},
                                              Fact<&TaskFacts::first_on_node>{"first_on_node"},
                                              Fact<&TaskFacts::node>{"node"}};

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

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/network/network_view.h"

/// Defines how the members of OWNER are sent: as JSON, each under its name. Members that a rank of another version does
/// not know keep their defaults. Leaving out a member is a compile error.
#define ROLLCALL_FACTS(OWNER, ...)                                    \
  NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(OWNER, __VA_ARGS__) \
  inline void lists_all_members(const OWNER& owner) { [[maybe_unused]] const auto& [__VA_ARGS__] = owner; }

namespace rollcall::network {
ROLLCALL_FACTS(Address, text, ipv4, loopback, link_local)
ROLLCALL_FACTS(ResolvedName, name, addresses, error)
}  // namespace rollcall::network

namespace rollcall::doctor {

/// The facts in this file are observed by one rank (observe/task.cpp) and sent to rank 0 as JSON. Plain values; sizes
/// are in bytes unless the name says otherwise; an empty `error` means success.

/// Results of name resolution on one node.
struct NameFacts {
  network::ResolvedName own;                ///< gethostname(2)
  std::vector<network::ResolvedName> head;  ///< the head node's candidate names, best first, as far as they were tried
  std::string reverse_address;              ///< the address used for the reverse look-up: the head node's first one
  std::string reverse_name;                 ///< its name; empty: none
  bool reverse_name_leads_back = true;      ///< that name resolves to the address again
};
ROLLCALL_FACTS(NameFacts, own, head, reverse_address, reverse_name, reverse_name_leads_back)

struct InterfaceFacts {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::int64_t megabits = -1;  ///< /sys/class/net/NAME/speed in Mbit/s; -1: unknown
};
ROLLCALL_FACTS(InterfaceFacts, name, up, loopback, megabits)

/// The interface that a setting selects on this node.
struct InterfaceUse {
  std::string setting;  ///< "interface.gloo"
  std::string value;    ///< empty: left unset
  std::string error;
};
ROLLCALL_FACTS(InterfaceUse, setting, value, error)

/// A GPU or a network adapter in /sys.
struct Device {
  std::string name;      ///< "0000:3b:00.0", "mlx5_0"
  int numa = -1;         ///< NUMA node; -1: unknown
  bool active = true;    ///< adapters: a port is up
  double gigabits = -1;  ///< adapters: rate of the first port in Gbit/s; -1: unknown
};
ROLLCALL_FACTS(Device, name, numa, active, gigabits)

/// The GPUs of the node from one rank's view.
struct GpuFacts {
  std::vector<Device> visible;  ///< visible to its program, in the order of CUDA's and HIP's numbers
  std::uint64_t openable = 0;   ///< number of GPUs whose device files it may open, also by its cgroup's rules
};
ROLLCALL_FACTS(GpuFacts, visible, openable)

/// A folder that should be writable.
struct FolderFacts {
  std::string path;  ///< empty: not configured
  std::string error;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_inodes = 0;
  std::uint64_t total_inodes = 0;  ///< 0: the file system does not count inodes
  std::string purge_warning;       ///< first node only: which file the site will delete soon; empty: none known
};
ROLLCALL_FACTS(FolderFacts, path, error, free_bytes, total_bytes, free_inodes, total_inodes, purge_warning)

struct VenvFacts {
  std::string path;  ///< empty: not configured
  std::string version;
  std::string error;
};
ROLLCALL_FACTS(VenvFacts, path, version, error)

/// Versions on one node; empty where unknown.
struct Versions {
  std::string rollcall;
  std::string slurm;
  std::string kernel;
  std::string glibc;
  std::string pmix;
  std::string plugin;   ///< plugins in plugstack.conf: "22.05.8 (1c291ca3)", Slurm's version and checksum
  std::string profile;  ///< the active site profile: "jedi (1c291ca3)"
  std::string program;  ///< checksum of the program rollcall
};
ROLLCALL_FACTS(Versions, rollcall, slurm, kernel, glibc, pmix, plugin, profile, program)

/// What the first rank of a node observes for the whole node.
struct NodeFacts {
  NameFacts names;
  std::vector<InterfaceFacts> interfaces;
  std::vector<InterfaceUse> interface_uses;
  std::string route_interface;  ///< interface of the route to the other nodes; empty: unknown
  std::vector<Device> gpus;
  std::vector<Device> adapters;
  std::int64_t slurm_gpus = 0;  ///< GPUs of the step on this node according to Slurm
  FolderFacts scratch;
  VenvFacts venv;
  Versions versions;
  std::uint64_t shm_bytes = 0;  ///< size of /dev/shm; 0: it does not exist
  std::uint64_t cores = 0;      ///< online physical cores
  std::string bench_program;    ///< path of rollcall-bench-collectives; empty: not installed
};
ROLLCALL_FACTS(NodeFacts, names, interfaces, interface_uses, route_interface, gpus, adapters, slurm_gpus, scratch, venv,
               versions, shm_bytes, cores, bench_program)

/// How a rank found rank 0.
struct HeadFacts {
  std::string endpoint;  ///< MASTER_ADDR:MASTER_PORT as resolved; empty: unknown
  std::string error;     ///< why that endpoint did not answer; empty: it did
  std::string used;      ///< the endpoint over which this report was sent, where it is another one
  /// Addresses of MASTER_ADDR that do not answer although another one does, IPv6 first, in the order of PyTorch's
  /// store.
  std::vector<std::string> silent_addresses;
};
ROLLCALL_FACTS(HeadFacts, endpoint, error, used, silent_addresses)

/// What each rank observes.
struct TaskFacts {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t node_rank = 0;
  std::string host;                  ///< Slurm's name of the node
  std::vector<std::uint32_t> cores;  ///< physical cores of its CPU set: the lowest CPU of each, ascending
  std::vector<int> numa_nodes;       ///< NUMA nodes of the CPU set, ascending; empty: unknown
  GpuFacts gpus;
  std::uint64_t locked_memory = 0;    ///< RLIMIT_MEMLOCK, soft limit; all bits set: unlimited
  std::string resolve_error;          ///< why `rollcall env` would fail here; empty: it would not
  std::vector<std::string> warnings;  ///< warnings that `rollcall env` would print
  bool environment_set = false;       ///< rollcall has already set the environment of this step
  HeadFacts head;
  std::uint16_t ring_port = 0;              ///< where its left neighbour may connect; 0: it does not listen
  std::vector<std::string> ring_addresses;  ///< names or addresses for that, best first
  bool first_on_node = false;               ///< `node` is filled in
  NodeFacts node;
};
ROLLCALL_FACTS(TaskFacts, rank, local_rank, node_rank, host, cores, numa_nodes, gpus, locked_memory, resolve_error,
               warnings, environment_set, head, ring_port, ring_addresses, first_on_node, node)

}  // namespace rollcall::doctor

#undef ROLLCALL_FACTS

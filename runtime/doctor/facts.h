#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/network/network_view.h"

namespace rollcall::doctor {

/// Everything in this file is observed by one rank and travels to rank 0 as JSON, by the table in fact_table.h: a new
/// member has a row there. Plain values; sizes in bytes unless
/// the name says otherwise; an empty `error` means that the thing works.

/// What names mean on one node.
struct NameFacts {
  network::ResolvedName own;                ///< gethostname(2)
  std::vector<network::ResolvedName> head;  ///< the head node's candidate names, best first, as far as they were tried
  std::string reverse_address;              ///< the address that was looked up in reverse: the head node's first one
  std::string reverse_name;                 ///< what it is called; empty: nothing
  bool reverse_name_leads_back = true;      ///< that name resolves to the address again
};

struct InterfaceFacts {
  std::string name;
  bool up = false;
  bool loopback = false;
  std::int64_t megabits = -1;  ///< /sys/class/net/NAME/speed; -1: unknown
};

/// The interface that a setting leads to on this node.
struct InterfaceUse {
  std::string setting;  ///< "interface.gloo"
  std::string value;    ///< empty: left unset
  std::string error;
};

/// A GPU or a network adapter of /sys.
struct Device {
  std::string name;      ///< "0000:3b:00.0", "mlx5_0"
  int numa = -1;         ///< NUMA node; -1: unknown
  bool active = true;    ///< adapters: a port is up
  double gigabits = -1;  ///< adapters: rate of the first port; -1: unknown
};

/// The GPUs of the node as one rank has them.
struct GpuFacts {
  std::vector<Device> visible;  ///< those that its program sees, in the order in which CUDA and HIP number them
  std::uint64_t openable = 0;   ///< those whose device files it may open, also by the rules of its cgroup
};

/// A folder that should be written to.
struct FolderFacts {
  std::string path;  ///< empty: none is configured
  std::string error;
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t free_inodes = 0;
  std::uint64_t total_inodes = 0;  ///< 0: the file system does not count them
  std::string purge_warning;       ///< first node only: which file the site will soon delete; empty: none is known
};

struct VenvFacts {
  std::string path;  ///< empty: none is configured
  std::string version;
  std::string error;
};

/// Empty: not known on this node.
struct Versions {
  std::string rollcall;
  std::string slurm;
  std::string kernel;
  std::string glibc;
  std::string pmix;
  std::string plugin;   ///< those that plugstack.conf names: "22.05.8 (1c291ca3)", version of Slurm and checksum
  std::string profile;  ///< the site profile in force: "jedi (1c291ca3)"
  std::string program;  ///< checksum of the program rollcall
};

/// What the first rank of a node observes for all of it.
struct NodeFacts {
  NameFacts names;
  std::vector<InterfaceFacts> interfaces;
  std::vector<InterfaceUse> interface_uses;
  std::string route_interface;  ///< towards the other nodes; empty: unknown
  std::vector<Device> gpus;
  std::vector<Device> adapters;
  std::int64_t slurm_gpus = 0;  ///< GPUs that Slurm says the step has on this node
  FolderFacts scratch;
  VenvFacts venv;
  Versions versions;
  std::uint64_t shm_bytes = 0;  ///< size of /dev/shm; 0: there is none
  std::uint64_t cores = 0;      ///< physical cores that are online
  std::string bench_program;    ///< path of rollcall-bench-collectives; empty: it is not installed
};

/// How a rank found rank 0.
struct HeadFacts {
  std::string endpoint;  ///< MASTER_ADDR:MASTER_PORT as resolved; empty: nothing says where rank 0 is
  std::string error;     ///< why that endpoint did not answer; empty: it did
  std::string used;      ///< the endpoint over which this report came, where it is another one
  /// Of several addresses of MASTER_ADDR those that do not answer, while another one does; IPv6 first, as PyTorch's
  /// store tries them.
  std::vector<std::string> silent_addresses;
};

/// What each rank observes.
struct TaskFacts {
  std::uint32_t rank = 0;
  std::uint32_t local_rank = 0;
  std::uint32_t node_rank = 0;
  std::string host;                  ///< as Slurm names it
  std::vector<std::uint32_t> cores;  ///< physical cores of its CPU set: the lowest CPU of each, ascending
  std::vector<int> numa_nodes;       ///< where these are, ascending; empty: unknown
  GpuFacts gpus;
  std::uint64_t locked_memory = 0;    ///< RLIMIT_MEMLOCK, soft; all bits set: unlimited
  std::string resolve_error;          ///< why `rollcall env` would fail here; empty: it would not
  std::vector<std::string> warnings;  ///< what it would warn of
  bool environment_set = false;       ///< a rollcall set the environment of this very step already
  HeadFacts head;
  std::uint16_t ring_port = 0;              ///< where its left neighbour may connect; 0: it does not listen
  std::vector<std::string> ring_addresses;  ///< under which names or addresses, best first
  bool first_on_node = false;               ///< `node` is filled in
  NodeFacts node;
};

}  // namespace rollcall::doctor

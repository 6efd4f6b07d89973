#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/doctor/checks/check.h"
#include "runtime/doctor/world.h"

namespace rollcall::doctor {

/// The tasks that speak for their nodes (the first rank of each), by node.
[[nodiscard]] std::vector<const TaskFacts*> nodes_of(const World& world);

/// Collects findings so that nodes with the same trouble share a line: 500 nodes that lack one folder are one line.
class Grouped {
 public:
  /// `host` has this trouble; the action of the first one with this reason counts.
  void add(Status status, const std::string& host, const std::string& reason, const std::string& action = "");
  /// What was added, in that order; where nothing was, one finding with this status and reason.
  [[nodiscard]] Findings or_else(Status status, const std::string& reason) &&;

 private:
  Findings findings_;
};

/// Hosts by what they say.
using HostsByText = std::map<std::string, std::vector<std::string>>;

/// What most hosts say; of equals what `preferred` says. The map may not be empty.
[[nodiscard]] const std::string& usual_text(const HostsByText& hosts, const std::string& preferred);

/// "7.3 TB", "64 MB": decimal, as disks are sold; three digits at most.
[[nodiscard]] std::string bytes_text(double bytes);

/// "1 node", "4 nodes".
[[nodiscard]] std::string count_text(std::size_t count, const std::string& noun);

/// The checks, one file each. Pure, never empty: where there is nothing to look at, the finding is Absent and says why.
[[nodiscard]] Findings check_answer(const World& world);
[[nodiscard]] Findings check_way(const World& world);
[[nodiscard]] Findings check_node_loss(const World& world);
[[nodiscard]] Findings check_environment(const World& world);
[[nodiscard]] Findings check_own_name(const World& world);
[[nodiscard]] Findings check_head_name(const World& world);
[[nodiscard]] Findings check_reverse_name(const World& world);
[[nodiscard]] Findings check_interface(const World& world);
[[nodiscard]] Findings check_head_port(const World& world);
[[nodiscard]] Findings check_ring(const World& world);
[[nodiscard]] Findings check_clock(const World& world);
[[nodiscard]] Findings check_scratch(const World& world);
[[nodiscard]] Findings check_venv(const World& world);
[[nodiscard]] Findings check_versions(const World& world);
[[nodiscard]] Findings check_devices(const World& world);
[[nodiscard]] Findings check_gpus(const World& world);
[[nodiscard]] Findings check_cpus(const World& world);
[[nodiscard]] Findings check_shm(const World& world);
[[nodiscard]] Findings check_memlock(const World& world);
[[nodiscard]] Findings check_speed(const World& world);
[[nodiscard]] Findings check_collectives(const World& world);

}  // namespace rollcall::doctor

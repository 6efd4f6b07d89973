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

}  // namespace rollcall::doctor

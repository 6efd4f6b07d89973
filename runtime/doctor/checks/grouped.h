#pragma once

#include <map>
#include <string>
#include <vector>

#include "runtime/doctor/checks/check.h"
#include "runtime/doctor/job_context.h"

namespace rollcall::doctor {

/// Returns the first task of each node, which reports for it, by node.
[[nodiscard]] std::vector<const TaskFacts*> nodes_of(const JobContext& context);

/// Collects findings and merges nodes with the same problem: 500 nodes that lack one folder are one line.
class Grouped {
 public:
  /// Adds a problem of `host`; the action of the first one with this reason is used.
  void add(Status status, const std::string& host, const std::string& reason, const std::string& action = "");
  /// Returns the collected findings in order; where there are none, one finding with this status and reason.
  [[nodiscard]] Findings or_else(Status status, const std::string& reason) &&;

 private:
  Findings findings_;
};

/// Host names by their common text.
using HostsByText = std::map<std::string, std::vector<std::string>>;

/// Returns the text that most hosts have, or `preferred` among equally frequent ones. The map must not be empty.
[[nodiscard]] const std::string& usual_text(const HostsByText& hosts, const std::string& preferred);

/// Returns "7.3 TB" or "64 MB": decimal units, at most three digits.
[[nodiscard]] std::string bytes_text(double bytes);

}  // namespace rollcall::doctor

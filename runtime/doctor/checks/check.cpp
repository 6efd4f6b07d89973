#include "runtime/doctor/checks/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {

std::vector<Checked> run_checks(const JobContext& context, const std::vector<std::string_view>& names) {
  std::vector<Checked> checked;
  for (const Check& check : kChecks) {
    if (!names.empty() && std::ranges::find(names, check.name) == names.end()) {
      continue;
    }
    for (Finding& finding : check.run(context)) {
      checked.push_back({check.name, std::move(finding)});
    }
  }
  return checked;
}

std::vector<const TaskFacts*> nodes_of(const JobContext& context) {
  std::vector<const TaskFacts*> nodes;
  for (const TaskFacts& task : context.tasks) {
    if (task.first_on_node) {
      nodes.push_back(&task);
    }
  }
  return nodes;
}

void Grouped::add(Status status, const std::string& host, const std::string& reason, const std::string& action) {
  const auto same = [&](const Finding& finding) { return finding.status == status && finding.reason == reason; };
  auto found = std::ranges::find_if(findings_, same);
  if (found == findings_.end()) {
    found = findings_.insert(found, Finding{status, {}, reason, action});
  }
  if (std::ranges::find(found->hosts, host) == found->hosts.end()) {
    found->hosts.push_back(host);
  }
}

Findings Grouped::or_else(Status status, const std::string& reason) && {
  if (findings_.empty()) {
    findings_.push_back(Finding{status, {}, reason, ""});
  }
  return std::move(findings_);
}

const std::string& usual_text(const HostsByText& hosts, const std::string& preferred) {
  const auto weight = [&](const auto& entry) {
    const bool has_preferred = std::ranges::find(entry.second, preferred) != entry.second.end();
    return std::pair(entry.second.size(), has_preferred);
  };
  return std::ranges::max_element(hosts, {}, weight)->first;
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) {
    bytes /= 1000;
  }
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

}  // namespace rollcall::doctor

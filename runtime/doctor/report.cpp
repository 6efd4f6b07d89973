#include "runtime/doctor/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "runtime/base/text.h"
#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {
namespace {

struct Mark {
  const char* unicode;
  const char* ascii;
  const char* colour;
};

const Mark& mark_of(Status status) {
  static constexpr Mark kGood{"✔", "ok  ", "\x1b[32m"};
  static constexpr Mark kNotice{"!", "note", "\x1b[33m"};
  static constexpr Mark kBad{"✘", "BAD ", "\x1b[31m"};
  static constexpr Mark kAbsent{"–", "-   ", "\x1b[2m"};
  return status == Status::Good ? kGood : status == Status::Notice ? kNotice : status == Status::Bad ? kBad : kAbsent;
}

std::string mark_text(Status status, const Style& style) {
  const Mark& mark = mark_of(status);
  const char* const text = style.unicode ? mark.unicode : mark.ascii;
  return style.colour ? fmt::format("{}{}\x1b[0m", mark.colour, text) : text;
}

/// Returns "jwb0001, jwb0002", "jwb0001, jwb0002 and 12 more" or "all 4 nodes".
std::string hosts_text(const std::vector<std::string>& hosts, const JobContext& context) {
  constexpr std::size_t kMost = 4;
  if (hosts.size() > 1 && hosts.size() == context.step.num_nodes) {
    return fmt::format("all {} nodes", hosts.size());
  }
  if (hosts.size() <= kMost) {
    return fmt::format("{}", fmt::join(hosts, ", "));
  }
  return fmt::format("{} and {} more", fmt::join(hosts.begin(), hosts.begin() + kMost - 1, ", "),
                     hosts.size() - kMost + 1);
}

std::string headline(const JobContext& context) {
  const job::JobFacts& step = context.step;
  std::string text = "rollcall doctor: ";
  if (step.job_id) {
    text += fmt::format("job {} step {}, ", *step.job_id, step.step_id.value_or(0));
  }
  if (step.world_index > 0 || step.first_rank > 0) {
    text += fmt::format("component {}, ", step.world_index);
  }
  return text + fmt::format("{}, {}\n\n", counted(step.num_nodes, "node"), counted(step.world_size, "rank"));
}

std::string line_of(const Checked& checked, const JobContext& context, const Style& style) {
  const Finding& finding = checked.finding;
  const std::string where = finding.hosts.empty() ? "" : hosts_text(finding.hosts, context) + ": ";
  const std::string indent(style.unicode ? 2 : 5, ' ');
  std::string text =
      fmt::format("{} {:<13} {}\n", mark_text(finding.status, style), checked.check, printable(where + finding.reason));
  if (!finding.action.empty()) {
    text += fmt::format("{}{:<13} {} {}\n", indent, "", style.unicode ? "→" : "->", printable(finding.action));
  }
  return text;
}

std::string benchmark_text(const Benchmark& benchmark) {
  std::string text = fmt::format("\n{:<16}{:>10}{:>12}{:>14}   ring of {}\n", "operation", "size", "time", "bandwidth",
                                 benchmark.ranks);
  for (const Measurement& row : benchmark.rows) {
    fmt::format_to(std::back_inserter(text), "{:<16}{:>10}{:>9.3f} ms{:>9.3f} GB/s\n", row.operation,
                   bytes_text(static_cast<double>(row.bytes)), row.seconds * 1e3, row.gigabytes);
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json step_json(const job::JobFacts& step) {
  Json json{{"source", step.source},       {"job_id", nullptr},
            {"step_id", nullptr},          {"component", step.world_index},
            {"num_nodes", step.num_nodes}, {"world_size", step.world_size},
            {"hosts", step.hosts}};
  if (step.job_id) {
    json["job_id"] = *step.job_id;
  }
  if (step.step_id) {
    json["step_id"] = *step.step_id;
  }
  return json;
}

Json findings_json(const std::vector<Checked>& findings) {
  Json list = Json::array();
  for (const Checked& checked : findings) {
    const Finding& finding = checked.finding;
    list.push_back({{"check", checked.check},
                    {"status", status_name(finding.status)},
                    {"hosts", finding.hosts},
                    {"reason", finding.reason},
                    {"action", finding.action}});
  }
  return list;
}

Json benchmark_json(const Benchmark& benchmark) {
  Json rows = Json::array();
  for (const Measurement& row : benchmark.rows) {
    rows.push_back({{"operation", row.operation},
                    {"bytes", row.bytes},
                    {"seconds", row.seconds},
                    {"gigabytes_per_second", row.gigabytes}});
  }
  return {{"ranks", benchmark.ranks}, {"error", benchmark.error}, {"rows", rows}};
}

Json collectives_json(const Collectives& collectives) {
  Json rows = Json::array();
  for (const CollectiveRow& row : collectives.rows) {
    rows.push_back({{"backend", row.backend},
                    {"operation", row.operation},
                    {"bytes", row.bytes},
                    {"seconds", row.seconds},
                    {"gigabytes_per_second", row.gigabytes},
                    {"correct", row.correct}});
  }
  return {{"error", collectives.error}, {"rows", rows}};
}

}  // namespace

std::vector<std::string> failed_checks(const std::vector<Checked>& findings) {
  std::vector<std::string> names;
  for (const Checked& checked : findings) {
    const std::string name(checked.check);
    if (checked.finding.status == Status::Bad && std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  }
  return names;
}

std::string report_text(const JobContext& context, const std::vector<Checked>& findings, const Style& style) {
  std::string text = headline(context);
  for (const Checked& checked : findings) {
    text += line_of(checked, context, style);
  }
  if (!context.benchmark.rows.empty()) {
    text += benchmark_text(context.benchmark);
  }
  const std::size_t failed = failed_checks(findings).size();
  const std::string verdict =
      failed == 0 ? "No check failed." : fmt::format("{} failed: see the lines above.", counted(failed, "check"));
  return text + fmt::format("\n{} ({:.1f} s)\n", verdict, context.seconds);
}

std::string report_json(const JobContext& context, const std::vector<Checked>& findings) {
  const Json all{{"step", step_json(context.step)},
                 {"findings", findings_json(findings)},
                 {"benchmark", benchmark_json(context.benchmark)},
                 {"collectives", collectives_json(context.collectives)},
                 {"seconds", context.seconds},
                 {"verdict", failed_checks(findings).empty() ? "good" : "bad"}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::doctor

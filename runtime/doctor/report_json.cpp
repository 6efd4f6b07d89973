#include <nlohmann/json.hpp>

#include "runtime/doctor/report.h"

namespace rollcall::doctor {
namespace {

using Json = nlohmann::ordered_json;

Json step_json(const job::JobFacts& step) {
  Json json{{"source", step.source},         {"job_id", nullptr},  {"step_id", nullptr}, {"num_nodes", step.num_nodes},
            {"world_size", step.world_size}, {"hosts", step.hosts}};
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

std::string report_json(const World& world, const std::vector<Checked>& findings) {
  const Json all{{"step", step_json(world.step)},
                 {"findings", findings_json(findings)},
                 {"benchmark", benchmark_json(world.benchmark)},
                 {"collectives", collectives_json(world.collectives)},
                 {"seconds", world.seconds},
                 {"verdict", failed_checks(findings).empty() ? "good" : "bad"}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::doctor

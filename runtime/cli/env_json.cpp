#include <nlohmann/json.hpp>

#include "runtime/cli/env_report.h"

namespace rollcall::cli {
namespace {

using Json = nlohmann::ordered_json;

Json facts_json(const job::JobFacts& facts) {
  Json json{{"source", facts.source},
            {"job_id", nullptr},
            {"step_id", nullptr},
            {"rank", facts.rank},
            {"world_size", facts.world_size},
            {"local_rank", facts.local_rank},
            {"local_world_size", facts.local_world_size},
            {"node_rank", facts.node_rank},
            {"num_nodes", facts.num_nodes},
            {"hosts", facts.hosts},
            {"tasks_per_node", facts.tasks_per_node},
            {"head_host", facts.head_host},
            {"this_host", facts.this_host}};
  if (facts.job_id) {
    json["job_id"] = *facts.job_id;
  }
  if (facts.step_id) {
    json["step_id"] = *facts.step_id;
  }
  return json;
}

}  // namespace

std::string env_json(const rendezvous::ResolvedStep& step, const settings::Settings& settings) {
  Json variables = Json::array();
  for (const resolve::EnvChange& change : step.patch.changes) {
    variables.push_back({{"name", change.name},
                         {"value", change.value},
                         {"action", action_name(change.action)},
                         {"origin", change.origin},
                         {"reason", change.reason}});
  }
  Json sources = Json::array();
  for (const bootstrap::TraceEntry& entry : step.trace) {
    sources.push_back({{"source", entry.source}, {"answered", entry.answered}, {"detail", entry.detail}});
  }
  Json site(nullptr);
  if (const auto& profile = settings.site()) {
    site = {{"name", profile->name}, {"file", profile->file}, {"recognised_by", profile->recognised_by}};
  }
  const Json all{{"facts", facts_json(step.facts)},
                 {"variables", variables},
                 {"warnings", step.patch.warnings},
                 {"sources", sources},
                 {"site", site}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::cli

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "runtime/base/this_process.h"
#include "runtime/elastic/agent.h"
#include "runtime/elastic/worker_plan.h"

namespace rollcall::elastic {
namespace {

using nlohmann::json;

double seconds_since(Clock::time_point moment) { return std::chrono::duration<double>(Clock::now() - moment).count(); }

json nodes_json(const std::vector<Node>& nodes) {
  json all = json::array();
  for (const Node& node : nodes) {
    all.push_back({{"host", node.host}, {"address", node.address}, {"workers", node.workers}, {"role", node.role}});
  }
  return all;
}

const char* name_of(Member::State state) {
  switch (state) {
    case Member::State::Waiting:
      return "waiting";
    case Member::State::Running:
      return "running";
    case Member::State::Stopping:
      return "stopping";
    case Member::State::Done:
      return "done";
    case Member::State::Left:
      break;
  }
  return "left";
}

}  // namespace

std::string Agent::status() const {
  const Generation& generation = member_.generation();
  json run{{"run_id", request_.meeting.run_id},
           {"host", this_host_name()},
           {"pid", getpid()},
           {"coordinator", coordination_->coordinator() != nullptr},
           {"rendezvous", coordination_->where()},
           {"state", name_of(member_.state())},
           {"min_nodes", request_.min_nodes},
           {"max_nodes", request_.max_nodes},
           {"workers", json::array()},
           {"standby", nullptr},
           {"spares", json::array()},
           {"history", json::array()}};
  run["generation"] = {{"number", generation.number},
                       {"restarts", generation.restarts},
                       {"group_rank", generation.group_rank},
                       {"nodes", nodes_json(generation.world)},
                       {"address", generation.address},
                       {"port", generation.port},
                       {"seconds", generation.number == 0 ? 0.0 : seconds_since(began_)}};
  if (group_) {
    const std::uint32_t first = place_of(generation.world, generation.group_rank).first_rank;
    for (std::uint32_t rank = 0; rank < group_->pids().size(); ++rank) {
      run["workers"].push_back({{"local_rank", rank}, {"rank", first + rank}, {"pid", group_->pids()[rank]}});
    }
  }
  if (standby_.link && standby_.link->lives_on()) {
    run["standby"] = standby_.pid;
  }
  if (const Coordinator* const coordinator = coordination_->coordinator()) {
    run["generation"]["confirmed"] = coordinator->confirmed();
    run["spares"] = nodes_json(coordinator->spares());
    for (const EndedGeneration& ended : coordinator->history()) {
      run["history"].push_back(
          {{"generation", ended.number}, {"reason", ended.reason}, {"seconds_ago", seconds_since(ended.at)}});
    }
  }
  return run.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace rollcall::elastic

#include "runtime/bootstrap/host_file.h"

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/bootstrap/slurm.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/node_list.h"

namespace rollcall::bootstrap {
namespace {

/// The host of each rank: a name, a node list or NAME*COUNT a line. Ends early at what is none of these, or once there
/// are more than `most`: then it is not this step's file.
std::vector<std::string> read_hosts(const std::string& path, std::size_t most) {
  std::vector<std::string> hosts;
  std::ifstream file(path);
  for (std::string line; hosts.size() <= most && std::getline(file, line);) {
    const std::string_view entry = trim(std::string_view(line).substr(0, line.find('#')));
    if (entry.empty()) {
      continue;
    }
    const std::size_t star = entry.find('*');
    const auto times = star == entry.npos ? 1U : parse_integer<std::uint32_t>(entry.substr(star + 1)).value_or(0);
    const auto names = job::expand_node_list(entry.substr(0, star));
    if (!names || times == 0 || times > most) {
      break;
    }
    for (std::uint32_t i = 0; i < times; ++i) {
      hosts.insert(hosts.end(), names->begin(), names->end());
    }
  }
  return hosts;
}

bool describes(const std::vector<std::string>& host_of_rank, const job::JobFacts& facts) {
  if (host_of_rank.size() != facts.world_size || host_of_rank[facts.rank] != facts.this_host) {
    return false;
  }
  std::map<std::string, std::uint32_t> counted;
  for (const std::string& host : host_of_rank) {
    ++counted[host];
  }
  std::map<std::string, std::uint32_t> expected;
  for (std::size_t node = 0; node < facts.hosts.size(); ++node) {
    expected[facts.hosts[node]] = facts.tasks_per_node[node];
  }
  return counted == expected;
}

}  // namespace

void find_head_in_host_file(const Environment& environment, job::JobFacts& facts) {
  const auto path = environment.get_non_empty(env::kSlurmHostFile);
  if (facts.head_known_to_all || !path || facts.hosts.empty() || facts.tasks_per_node.size() != facts.hosts.size()) {
    return;
  }
  const std::vector<std::string> host_of_rank = read_hosts(*path, facts.world_size);
  if (describes(host_of_rank, facts)) {
    facts.head_host = host_of_rank.front();
    facts.head_known_to_all = true;
    forget_that_head_was_unknown(facts);
  }
}

}  // namespace rollcall::bootstrap

#include <fmt/format.h>

#include <array>

#include "runtime/doctor/checks/all.h"
#include "runtime/doctor/checks/group.h"

namespace rollcall::doctor {
namespace {

struct Product {
  const char* name;
  std::string Versions::*version;
  Status if_different;
};

/// Bad: a program that works on one node need not start on another. The others differ during a rolling update.
constexpr std::array kProducts{
    Product{"rollcall", &Versions::rollcall, Status::Bad}, Product{"Slurm", &Versions::slurm, Status::Notice},
    Product{"kernel", &Versions::kernel, Status::Notice},  Product{"glibc", &Versions::glibc, Status::Bad},
    Product{"PMIx", &Versions::pmix, Status::Notice},
};

void compare(const Product& product, const World& world, Grouped& grouped, std::string& same) {
  HostsByText hosts_by_version;
  for (const TaskFacts* node : nodes_of(world)) {
    hosts_by_version[node->node.versions.*product.version].push_back(node->host);
  }
  if (hosts_by_version.empty()) {
    return;
  }
  const std::string& most = usual_text(hosts_by_version, world.tasks.front().host);
  const std::string usual = most.empty() ? "none" : most;
  same += fmt::format("{}{} {}", same.empty() ? "" : ", ", product.name, usual);
  for (const auto& [version, hosts] : hosts_by_version) {
    for (const std::string& host : version == most ? std::vector<std::string>() : hosts) {
      const std::string here = version.empty() ? "none" : version;
      grouped.add(product.if_different, host, fmt::format("{} {}, elsewhere {}", product.name, here, usual),
                  "build for the older one, or keep the job on nodes of one kind (--constraint, --exclude)");
    }
  }
}

}  // namespace

Findings check_versions(const World& world) {
  Grouped grouped;
  std::string same;
  for (const Product& product : kProducts) {
    compare(product, world, grouped, same);
  }
  return std::move(grouped).or_else(Status::Good, same);
}

}  // namespace rollcall::doctor

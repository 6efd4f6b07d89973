#pragma once

#include <gtest/gtest.h>

#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::resolve {

/// Rank 3 of 4 on the second of two Jülich nodes.
struct Step {
  job::JobFacts facts;
  settings::Settings settings{settings::launch_table()};
  network::NetworkView network;
  Environment user;
  std::uint32_t cpus = 12;

  Step() {
    facts.source = "slurm";
    facts.job_id = 4711;
    facts.step_id = 2;
    facts.rank = 3;
    facts.world_size = 4;
    facts.local_rank = 1;
    facts.local_world_size = 2;
    facts.node_rank = 1;
    facts.num_nodes = 2;
    facts.hosts = {"jwb0001", "jwb0002"};
    facts.tasks_per_node = {2, 2};
    facts.head_host = "jwb0001";
    facts.this_host = "jwb0002";
    set("host.template", "{host}i");
    network.host_name = "jwb0002";
    network.interfaces = {{"lo", true, true, {{"127.0.0.1", true, true, false}}},
                          {"eth0", true, false, {{"10.77.0.2", true, false, false}}},
                          {"ib0", true, false, {{"10.78.0.2", true, false, false}}}};
    network.head_names = {{"jwb0001i", {{"10.78.0.1", true, false, false}}, ""}};
    network.route_interface = "ib0";
    network.ephemeral_ports = {.range = {32768, 60999}};
    user.set("PATH", "/usr/bin:/bin");
  }
  void set(const char* name, const char* text) { ASSERT_TRUE(settings.set(name, text, "test")); }
  Result<EnvPatch> run() const { return resolve(facts, settings, network, user, cpus); }
  Environment after() const {
    const auto patch = run();
    EXPECT_TRUE(patch) << patch.error().message();
    return apply(*patch, user);
  }
};

}  // namespace rollcall::resolve

#pragma once

#include <string>

#include "runtime/doctor/job_context.h"

namespace rollcall::doctor {

/// A healthy step of two nodes, jwb0001 and jwb0002, with two ranks each, for tests to break.
inline JobContext healthy_world() {
  JobContext context;
  context.step.source = "slurm";
  context.step.job_id = 7;
  context.step.step_id = 0;
  context.step.world_size = 4;
  context.step.num_nodes = 2;
  context.step.hosts = {"jwb0001", "jwb0002"};
  context.step.tasks_per_node = {2, 2};
  context.step.head_host = "jwb0001";
  context.launch_method.srun_exists = true;
  context.node_loss = {.known = true, .noticed_seconds = 300, .requeues = true};
  context.launch_method.srun_has_option = true;
  context.launch_method.installation = "site";
  context.launch_method.plugin = "/opt/spank_rollcall.so";
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    TaskFacts task;
    task.rank = rank;
    task.local_rank = rank % 2;
    task.node_rank = rank / 2;
    task.host = context.step.hosts[task.node_rank];
    task.cores = {task.local_rank};
    task.numa_nodes = {0};
    task.gpus = {{{"0000:3b:00.0", 0, true, -1}, {"0000:86:00.0", 0, true, -1}}, 2};
    task.locked_memory = ~std::uint64_t{0};
    task.head.endpoint = "jwb0001i:29500";
    task.first_on_node = task.local_rank == 0;
    NodeFacts& node = task.node;
    const network::Address head{"10.78.0.1", true, false, false};
    node.names.own = {task.host, {head}, ""};
    node.names.head = {{"jwb0001i", {head}, ""}};
    node.names.reverse_address = head.text;
    node.names.reverse_name = "jwb0001i";
    node.interfaces = {{"lo", true, true, -1}, {"ib0", true, false, 100'000}};
    node.interface_uses = {{"interface.gloo", "ib0", ""}};
    node.route_interface = "ib0";
    node.gpus = task.gpus.visible;
    node.adapters = {{"mlx5_0", 0, true, 200}};
    node.scratch = {"/scratch", "", 1'000'000'000'000, 2'000'000'000'000, 900, 1000, ""};
    node.venv = {"/venv", "3.11.2", ""};
    node.versions = {"0.1.0", "24.11.5", "6.1.0", "2.36", "4.2.2", "24.11.5 (1c291ca3)", "x (0a0b0c0d)", "11223344"};
    node.shm_bytes = 8'000'000'000;
    node.cores = 4;
    context.tasks.push_back(task);
  }
  context.ring = {{"jwb0001", "jwb0002", ""}, {"jwb0002", "jwb0001", ""}};
  context.clocks = {{"jwb0002", 0.0001, 0.00005}};
  context.benchmark = {2, "", {{"all-reduce", 256, 40e-6, 0.01}, {"all-reduce", 8'388'608, 4e-3, 2.5}}};
  context.collectives = {
      "", "", {{"gloo", "all_reduce", 1024, 120e-6, 0.01, true}, {"gloo", "all_reduce", 16'777'216, 20e-3, 0.8, true}}};
  return context;
}

}  // namespace rollcall::doctor

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/doctor/facts.h"
#include "runtime/job/job_facts.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::doctor {

/// Thresholds from the settings.
struct Limits {
  bool loopback_allowed = false;       ///< host.loopback is allow: all nodes are one machine
  double clock_seconds = 0.5;          ///< doctor.clock
  double timeout_seconds = 60;         ///< rendezvous.timeout
  std::optional<double> gigabytes;     ///< doctor.bandwidth in GB/s; unset: derived from the interface's speed
  std::optional<double> microseconds;  ///< doctor.latency in microseconds, for one hop; unset: the built-in rule
};

/// A rank, or several ranks of a node, that should have reported but did not.
struct Missing {
  std::string who;  ///< the node, or "rank 3" where its node is unknown
  std::string reason;
};

/// One connection of the ring, from the first rank of a node to that of the next node.
struct RingLink {
  std::string from;
  std::string to;
  std::string error;  ///< empty: connected
};

/// A node's clock relative to that of rank 0's node.
struct ClockReading {
  std::string host;
  double ahead_seconds = 0;
  double uncertainty_seconds = 0;  ///< half of the round trip
};

/// One row of the benchmark: an all-reduce of one size over a ring of the nodes' first ranks.
struct Measurement {
  std::string operation;    ///< "all-reduce"
  std::uint64_t bytes = 0;  ///< size of the whole vector
  double seconds = 0;       ///< median of the repetitions of the slowest rank
  double gigabytes = 0;     ///< bus bandwidth in GB/s: what each link carried
};

struct Benchmark {
  std::uint32_t ranks = 0;        ///< 0: not run
  std::string error;              ///< why it did not finish; empty: it did, or was not run
  std::vector<Measurement> rows;  ///< smallest size first
  std::string absent = {};        ///< why it was not run, where another check reports the cause; otherwise empty
};

/// One row of rollcall-bench-collectives, measured among all ranks.
struct CollectiveRow {
  std::string backend;    ///< "gloo"
  std::string operation;  ///< "all_reduce"
  std::uint64_t bytes = 0;
  double seconds = 0;    ///< median of the slowest rank
  double gigabytes = 0;  ///< bus bandwidth in GB/s
  bool correct = false;  ///< on all ranks
};

struct Collectives {
  std::string absent;  ///< why it was not run; empty: it was run
  std::string error;   ///< why it failed
  std::vector<CollectiveRow> rows;
};

/// How rollcall gets into a step of this user.
struct LaunchMethod {
  bool srun_exists = false;
  bool srun_has_option = false;       ///< `srun --help` lists --ddp
  std::string installation = "none";  ///< where it is installed: "none", "site", "user", "site and user"
  std::string plugin;                 ///< path of the active plugin; empty: none
  std::string task_prolog;            ///< slurm.conf's TaskProlog, which runs after the plugin; empty: none
  std::vector<std::string> changed;   ///< variables that rollcall set in this step and that were changed since
  std::vector<std::string> problems;  ///< problems of the installation, one line each, with the action
};

/// What Slurm does after a node of a job was lost (slurm.conf(5): SlurmdTimeout, JobRequeue).
struct NodeLoss {
  bool known = false;          ///< Slurm reported it
  double noticed_seconds = 0;  ///< until Slurm declares a silent node down; 0: never
  /// Whether this job may be requeued; outside a job, the default. Unset: it is not a batch job, so it cannot be.
  std::optional<bool> requeues = false;
};

/// Everything that rank 0 has collected: the input of every check.
struct JobContext {
  job::JobFacts step;  ///< from rank 0's view
  Limits limits;
  LaunchMethod launch_method;
  NodeLoss node_loss;
  std::vector<TaskFacts> tasks;  ///< tasks that answered, by rank; rank 0 first
  std::vector<Missing> missing;
  std::string last_rejected;  ///< the last peer that rank 0 rejected, "10.0.0.7, which ..."; empty: none
  std::vector<RingLink> ring;
  std::vector<ClockReading> clocks;
  Benchmark benchmark;
  Collectives collectives;
  double seconds = 0;  ///< how long rank 0 took to collect everything
};

/// Returns the thresholds from the launch settings.
[[nodiscard]] Limits limits_of(const settings::LaunchSettings& settings);

}  // namespace rollcall::doctor

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/doctor/facts.h"
#include "runtime/job/job_facts.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::doctor {

/// What the settings say about right and wrong.
struct Limits {
  bool loopback_allowed = false;       ///< host.loopback is allow: all nodes are one machine
  double clock_seconds = 0.5;          ///< doctor.clock
  double timeout_seconds = 60;         ///< rendezvous.timeout
  std::optional<double> gigabytes;     ///< doctor.bandwidth in GB/s; nothing: by the interface's speed
  std::optional<double> microseconds;  ///< doctor.latency, for one hop; nothing: the built-in rule
};

/// A rank, or some ranks of a node, that should be there and are not.
struct Missing {
  std::string who;  ///< the node, or "rank 3" where nothing says on which node that is
  std::string reason;
};

/// One connection of the ring: from the first rank of a node to that of the next one.
struct RingLink {
  std::string from;
  std::string to;
  std::string error;  ///< empty: connected
};

/// A node's clock against that of rank 0's node.
struct ClockReading {
  std::string host;
  double ahead_seconds = 0;
  double uncertainty_seconds = 0;  ///< half of the round trip
};

/// One row of the benchmark: an all-reduce of one size, over a ring of the nodes' first ranks.
struct Measurement {
  std::string operation;    ///< "all-reduce"
  std::uint64_t bytes = 0;  ///< of the whole vector
  double seconds = 0;       ///< median of the repetitions, slowest rank
  double gigabytes = 0;     ///< bus bandwidth, GB/s: what each link carried
};

struct Benchmark {
  std::uint32_t ranks = 0;        ///< 0: not run
  std::string error;              ///< why it was not run or did not end
  std::vector<Measurement> rows;  ///< the smallest first
};

/// One row of what rollcall-bench-collectives measured among all ranks.
struct CollectiveRow {
  std::string backend;    ///< "gloo"
  std::string operation;  ///< "all_reduce"
  std::uint64_t bytes = 0;
  double seconds = 0;    ///< median of the slowest rank
  double gigabytes = 0;  ///< bus bandwidth, GB/s
  bool correct = false;  ///< on all ranks
};

struct Collectives {
  std::string absent;  ///< why it was not run; empty: it was
  std::string error;   ///< why it did not end well
  std::vector<CollectiveRow> rows;
};

/// How rollcall gets into a step of this user.
struct Way {
  bool srun_exists = false;
  bool srun_has_option = false;       ///< `srun --help` lists --ddp
  std::string installation = "none";  ///< whose: "none", "site", "user", "site and user"
  std::string plugin;                 ///< path of the plugin in force; empty: none
  std::string task_prolog;            ///< slurm.conf's TaskProlog, which runs after the plugin; empty: none
  std::vector<std::string> changed;   ///< variables that a rollcall set in this step and that were set anew since
  std::vector<std::string> problems;  ///< of the installation, one line each: what is wrong and what to do
};

/// What Slurm does once a node of a job is lost (slurm.conf(5): SlurmdTimeout, JobRequeue).
struct NodeLoss {
  bool known = false;          ///< Slurm says it
  double noticed_seconds = 0;  ///< until it takes a silent node for lost; 0: it never does
  /// This job may be requeued; outside a job: one that does not say. Nothing: it is no batch job, which alone are.
  std::optional<bool> requeues = false;
};

/// All that rank 0 knows in the end: the input of every check.
struct World {
  job::JobFacts step;  ///< as rank 0 sees it
  Limits limits;
  Way way;
  NodeLoss node_loss;
  std::vector<TaskFacts> tasks;  ///< those who answered, by rank; rank 0 first
  std::vector<Missing> missing;
  std::string sent_away;  ///< the last that came to rank 0 and was sent away, "10.0.0.7, which ..."; empty: nobody
  std::vector<RingLink> ring;
  std::vector<ClockReading> clocks;
  Benchmark benchmark;
  Collectives collectives;
  double seconds = 0;  ///< how long rank 0 took to find all that out
};

/// Reads the limits from the launch settings.
[[nodiscard]] Limits limits_of(const settings::LaunchSettings& settings);

}  // namespace rollcall::doctor

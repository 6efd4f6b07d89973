#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/doctor/job_context.h"

namespace rollcall::doctor {

enum class Status {
  Good,
  Notice,  ///< works, but may break some program; does not fail the report
  Bad,
  Absent,  ///< nothing to check, or the check was not possible
};

/// One line of the report: what a check found on some nodes.
struct Finding {
  Status status = Status::Good;
  std::vector<std::string> hosts;  ///< the nodes concerned; empty: all nodes
  std::string reason;              ///< one clause: what was observed
  std::string action;              ///< Notice, Bad: what to do, beginning with a verb; otherwise empty
};

using Findings = std::vector<Finding>;

/// A finding with the name of its check ("head-port").
struct Checked {
  std::string_view check;
  Finding finding;
};

/// Returns "good", "notice", "bad" or "absent", as in the JSON report.
[[nodiscard]] constexpr std::string_view status_name(Status status) {
  switch (status) {
    case Status::Good:
      return "good";
    case Status::Notice:
      return "notice";
    case Status::Bad:
      return "bad";
    case Status::Absent:
      return "absent";
  }
  return "";
}

/// A check's function. Pure, since the facts are collected earlier. Never returns an empty list: without anything to
/// check, the finding is Absent and gives the reason.
using Judge = Findings(const JobContext& context);

/// One check: a row of the table behind `rollcall doctor --list`, --only and --skip.
struct Check {
  std::string_view name;     ///< "head-port"
  std::string_view summary;  ///< one clause: what is checked
  Judge* run = nullptr;
};

// A new check is a function in the file of its subject, with its name and row here.
Judge check_answer, check_way, check_node_loss, check_environment, check_own_name, check_head_name, check_reverse_name,
    check_interface, check_head_port, check_ring, check_clock, check_scratch, check_venv, check_versions, check_devices,
    check_gpus, check_cpus, check_shm, check_memlock, check_speed, check_collectives;

/// All checks, in the order of the report.
inline constexpr std::array kChecks{
    Check{"answer", "every rank of the step answers", check_answer},
    Check{"way", "how rollcall reaches a step: plugin, exec, or not at all", check_way},
    Check{"node-loss", "what Slurm does after a node of an elastic job is lost", check_node_loss},
    Check{"environment", "`rollcall env` resolves on every node", check_environment},
    Check{"own-name", "every node's own host name resolves (JAX and torchrun look it up)", check_own_name},
    Check{"head-name", "the head node's name resolves on every node, to the same usable address", check_head_name},
    Check{"reverse-name", "the head node's address has a name that resolves to it", check_reverse_name},
    Check{"interface", "the interfaces configured for Gloo and NCCL exist and are up", check_interface},
    Check{"head-port", "every node reaches MASTER_ADDR:MASTER_PORT", check_head_port},
    Check{"ring", "every node reaches the next one", check_ring},
    Check{"clock", "the nodes' clocks agree", check_clock},
    Check{"scratch", "SCRATCH can be written, and has room", check_scratch},
    Check{"venv", "the Python environment runs on every node", check_venv},
    Check{"versions",
          "rollcall, its plugin, profile and program, Slurm, kernel, glibc and PMIx are the same on all nodes",
          check_versions},
    Check{"devices", "GPUs are visible, each with a network adapter near it", check_devices},
    Check{"gpus", "every rank has a GPU, near its CPUs, and sees all GPUs of its node", check_gpus},
    Check{"cpus", "the ranks of a node do not share cores", check_cpus},
    Check{"shm", "/dev/shm is large enough for NCCL and data loaders", check_shm},
    Check{"memlock", "locked memory is unlimited where a network adapter needs it", check_memlock},
    Check{"speed", "bandwidth and latency between the nodes reach what is expected", check_speed},
    Check{"collectives", "the trainer's backends give right results on all ranks, and how fast (--collectives)",
          check_collectives},
};

/// Runs the checks with these names, or all where `names` is empty.
[[nodiscard]] std::vector<Checked> run_checks(const JobContext& context, const std::vector<std::string_view>& names);

}  // namespace rollcall::doctor

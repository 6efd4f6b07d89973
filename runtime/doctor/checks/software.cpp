#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {
namespace {

constexpr const char* kInStep = "srun --ddp or rollcall exec set the environment of this step";

/// Returns " (site installation, /opt/rollcall/spank_rollcall.so)"; empty where configuration files name none.
std::string installation_text(const LaunchMethod& way) {
  return way.installation == "none" ? "" : fmt::format(" ({} installation, {})", way.installation, way.plugin);
}

Finding finding_of(const LaunchMethod& way, bool in_step) {
  if (way.srun_has_option) {
    const std::string here = in_step ? kInStep : "this step was started without it";
    return {Status::Good, {}, fmt::format("srun has --ddp{}; {}", installation_text(way), here), ""};
  }
  if (in_step) {
    return {Status::Good, {}, fmt::format("{}; srun has no --ddp here", kInStep), ""};
  }
  if (!way.srun_exists) {
    return {Status::Absent,
            {},
            "srun does not work here: this host is not in a Slurm cluster, or Slurm is not configured",
            ""};
  }
  return {Status::Notice,
          {},
          "srun has no --ddp: programs get no environment from rollcall",
          "use srun rollcall exec -- PROGRAM, or run rollcall install --user once"};
}

/// Checks the site's TaskProlog, which Slurm runs between the plugin and the program: before a user's task prolog and
/// rollcall exec.
void judge_task_prolog(const LaunchMethod& way, Findings& findings) {
  const std::string action =
      "start programs with srun rollcall exec, which runs last, or do not set these variables there";
  if (!way.changed.empty()) {
    const std::string by = way.task_prolog.empty() ? "" : ", most likely by TaskProlog=" + way.task_prolog;
    findings.push_back({Status::Notice,
                        {},
                        fmt::format("{}: changed after rollcall had set it{}; variables derived from it (PET_*, JAX_*) "
                                    "keep the earlier value",
                                    fmt::join(way.changed, ", "), by),
                        action});
  } else if (!way.task_prolog.empty() && way.installation.starts_with("site")) {
    findings.push_back({Status::Notice,
                        {},
                        fmt::format("slurm.conf's TaskProlog, {}, runs after srun --ddp, which does not see what it "
                                    "sets (SCRATCH, TMPDIR); its values win",
                                    way.task_prolog),
                        action});
  }
}

struct Product {
  const char* name;
  std::string Versions::*version;
  Status if_different;
  const char* action = "build for the older version, or keep the job on nodes of one kind (--constraint, --exclude)";
};

constexpr const char* kSameFiles =
    "install the same files on all nodes, compute nodes first (docs/administrator/upgrade.md)";

/// Bad: a program that works on one node may not start on another. The other versions differ during a rolling update.
constexpr std::array kProducts{
    Product{"rollcall", &Versions::rollcall, Status::Bad},
    Product{"Slurm", &Versions::slurm, Status::Notice},
    Product{"kernel", &Versions::kernel, Status::Notice},
    Product{"glibc", &Versions::glibc, Status::Bad},
    Product{"PMIx", &Versions::pmix, Status::Notice},
    Product{"plugin", &Versions::plugin, Status::Notice, kSameFiles},
    Product{"profile", &Versions::profile, Status::Notice, kSameFiles},
    Product{"program", &Versions::program, Status::Notice, kSameFiles},
};

void compare(const Product& product, const JobContext& context, Grouped& grouped, std::string& same) {
  HostsByText hosts_by_version;
  for (const TaskFacts* node : nodes_of(context)) {
    hosts_by_version[node->node.versions.*product.version].push_back(node->host);
  }
  if (hosts_by_version.empty()) {
    return;
  }
  const std::string& most = usual_text(hosts_by_version, context.tasks.front().host);
  const std::string usual = most.empty() ? "none" : most;
  same += fmt::format("{}{} {}", same.empty() ? "" : ", ", product.name, usual);
  for (const auto& [version, hosts] : hosts_by_version) {
    for (const std::string& host : version == most ? std::vector<std::string>() : hosts) {
      const std::string here = version.empty() ? "none" : version;
      grouped.add(product.if_different, host, fmt::format("{} {}, elsewhere {}", product.name, here, usual),
                  product.action);
    }
  }
}

}  // namespace

Findings check_way(const JobContext& context) {
  const bool in_step = !context.tasks.empty() && context.tasks.front().environment_set;
  Findings findings{finding_of(context.launch_method, in_step)};
  judge_task_prolog(context.launch_method, findings);
  for (const std::string& problem : context.launch_method.problems) {
    findings.push_back({Status::Notice, {}, problem, "run rollcall install --status for the whole state"});
  }
  return findings;
}

/// Checks what Slurm does; agents of `rollcall run` notice the loss of a node themselves.
Findings check_node_loss(const JobContext& context) {
  const NodeLoss& loss = context.node_loss;
  if (!loss.known) {
    return {{Status::Absent, {}, "Slurm does not report what it does after a node is lost", ""}};
  }
  Findings findings;
  if (loss.noticed_seconds == 0) {
    findings.push_back(
        {Status::Notice,
         {},
         "Slurm never declares a silent node down (SlurmdTimeout=0): an elastic job that loses its batch "
         "node continues until its time limit",
         "give elastic jobs a --time close to what they need"});
  }
  if (loss.requeues && !*loss.requeues) {
    findings.push_back({Status::Notice,
                        {},
                        "a batch job that has lost too many nodes ends here instead of being requeued",
                        "submit with --requeue, as run_elastic.sbatch does"});
  }
  const std::string good =
      fmt::format("Slurm declares a node down after {} s of silence, and {}", loss.noticed_seconds,
                  loss.requeues ? "may requeue the job" : "requeues only batch jobs, and this is not one");
  return findings.empty() ? Findings{{Status::Good, {}, good, ""}} : findings;
}

Findings check_environment(const JobContext& context) {
  Grouped grouped;
  for (const TaskFacts& task : context.tasks) {
    if (!task.resolve_error.empty()) {
      grouped.add(Status::Bad, task.host, task.resolve_error, "run rollcall env --verbose on that node");
    }
    for (const std::string& warning : task.warnings) {
      grouped.add(Status::Notice, task.host, warning, "run rollcall env --verbose on that node");
    }
  }
  return std::move(grouped).or_else(Status::Good, "resolves on every node");
}

Findings check_venv(const JobContext& context) {
  Grouped grouped;
  std::string good;
  for (const TaskFacts* task : nodes_of(context)) {
    const VenvFacts& venv = task->node.venv;
    if (!venv.error.empty()) {
      grouped.add(Status::Bad, task->host, fmt::format("{}: {}", venv.path, venv.error),
                  "recreate it on a compute node, or load the module of its Python before srun");
    } else if (!venv.path.empty()) {
      good = fmt::format("{} runs Python {}", venv.path, venv.version);
    }
  }
  return std::move(grouped).or_else(good.empty() ? Status::Absent : Status::Good,
                                    good.empty() ? "neither setting venv nor VIRTUAL_ENV is set" : good);
}

Findings check_versions(const JobContext& context) {
  Grouped grouped;
  std::string same;
  for (const Product& product : kProducts) {
    compare(product, context, grouped, same);
  }
  return std::move(grouped).or_else(Status::Good, same);
}

}  // namespace rollcall::doctor

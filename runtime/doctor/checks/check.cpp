#include "runtime/doctor/checks/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "runtime/doctor/checks/grouped.h"

namespace rollcall::doctor {
namespace {

constexpr std::array kChecks{
    Check{"answer", "every rank of the step answers", check_answer},
    Check{"way", "how rollcall gets into a step: plugin, exec, or not at all", check_way},
    Check{"node-loss", "what Slurm does once a node of an elastic job is lost", check_node_loss},
    Check{"environment", "`rollcall env` resolves on every node", check_environment},
    Check{"own-name", "every node's own host name resolves (JAX and torchrun look it up)", check_own_name},
    Check{"head-name", "the head node's name resolves on every node, to the same usable address", check_head_name},
    Check{"reverse-name", "the head node's address leads back to a name that resolves to it", check_reverse_name},
    Check{"interface", "the interfaces that Gloo and NCCL are told exist and are up", check_interface},
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
    Check{"collectives", "the trainer's backends come out right among all ranks, and how fast (--collectives)",
          check_collectives},
};

}  // namespace

std::span<const Check> all_checks() { return kChecks; }

std::vector<Checked> run_checks(const World& world, const std::vector<std::string_view>& names) {
  std::vector<Checked> checked;
  for (const Check& check : kChecks) {
    if (!names.empty() && std::ranges::find(names, check.name) == names.end()) {
      continue;
    }
    for (Finding& finding : check.run(world)) {
      checked.push_back({check.name, std::move(finding)});
    }
  }
  return checked;
}

std::vector<const TaskFacts*> nodes_of(const World& world) {
  std::vector<const TaskFacts*> nodes;
  for (const TaskFacts& task : world.tasks) {
    if (task.first_on_node) {
      nodes.push_back(&task);
    }
  }
  return nodes;
}

void Grouped::add(Status status, const std::string& host, const std::string& reason, const std::string& action) {
  const auto same = [&](const Finding& finding) { return finding.status == status && finding.reason == reason; };
  auto found = std::ranges::find_if(findings_, same);
  if (found == findings_.end()) {
    found = findings_.insert(found, Finding{status, {}, reason, action});
  }
  if (std::ranges::find(found->hosts, host) == found->hosts.end()) {
    found->hosts.push_back(host);
  }
}

Findings Grouped::or_else(Status status, const std::string& reason) && {
  if (findings_.empty()) {
    findings_.push_back(Finding{status, {}, reason, ""});
  }
  return std::move(findings_);
}

const std::string& usual_text(const HostsByText& hosts, const std::string& preferred) {
  const auto weight = [&](const auto& entry) {
    const bool has_preferred = std::ranges::find(entry.second, preferred) != entry.second.end();
    return std::pair(entry.second.size(), has_preferred);
  };
  return std::ranges::max_element(hosts, {}, weight)->first;
}

std::string bytes_text(double bytes) {
  constexpr std::array kUnits{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  std::size_t unit = 0;
  for (; bytes >= 999.5 && unit + 1 < kUnits.size(); ++unit) {
    bytes /= 1000;
  }
  return fmt::format("{:.3g} {}", bytes, kUnits[unit]);
}

std::string count_text(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace rollcall::doctor

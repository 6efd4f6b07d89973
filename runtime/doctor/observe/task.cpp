#include "runtime/doctor/observe/observe.h"

#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/base/time_limit.h"
#include "runtime/contract/env_vars.h"
#include "runtime/network/choose_interface.h"
#include "runtime/network/network_view.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/values.h"
#include "runtime/storage/purge_age.h"

namespace rollcall::doctor {
namespace {

constexpr const char* kSys = "/sys";

/// Returns a share of rank 0's waiting time, so that a report about a hang still arrives in time.
std::chrono::duration<double> patience_of(const TaskInputs& inputs) {
  return std::chrono::duration<double>(std::clamp(inputs.settings.rendezvous_timeout.count() / 8, 1.0, 10.0));
}

std::uint64_t locked_memory() {
  rlimit limit{};
  const bool known = getrlimit(RLIMIT_MEMLOCK, &limit) == 0;
  return !known ? 0 : limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max() : limit.rlim_cur;
}

network::ResolvedName own_name(const TaskInputs& inputs) {
  const std::string name = inputs.step.network.host_name;
  std::optional<network::ResolvedName> found =
      run_with_timeout(patience_of(inputs), [name] { return network::resolve_name(name); });
  return found ? *std::move(found) : network::ResolvedName{name, {}, "the name server does not respond"};
}

NameFacts observe_names(const TaskInputs& inputs) {
  NameFacts names;
  names.own = own_name(inputs);
  names.head = inputs.step.network.head_names;
  for (const network::ResolvedName& name : names.head) {
    if (names.reverse_address.empty() && !name.addresses.empty()) {
      names.reverse_address = name.addresses.front().text;
    }
  }
  if (const std::string address = names.reverse_address; !address.empty()) {
    names.reverse_name =
        run_with_timeout(patience_of(inputs), [address] { return reverse_name(address); }).value_or("");
    const auto back = [name = names.reverse_name] { return network::resolve_name(name).addresses; };
    const auto same = [&](const network::Address& other) { return other.text == address; };
    const auto addresses = run_with_timeout(patience_of(inputs), back);
    names.reverse_name_leads_back = addresses && std::ranges::any_of(*addresses, same);
  }
  return names;
}

InterfaceUse use_of(const std::string& setting, const Result<network::InterfaceChoice>& choice) {
  return choice ? InterfaceUse{setting, choice->value, ""}
                : InterfaceUse{setting, choice.error().value, choice.error().value + " " + choice.error().reason};
}

std::vector<InterfaceUse> interface_uses(const TaskInputs& inputs) {
  return {use_of("interface.gloo",
                 network::choose_interface("interface.gloo", inputs.settings.gloo_interfaces, inputs.step.network)),
          use_of("interface.nccl", network::choose_interface_prefixes("interface.nccl", inputs.settings.nccl_interfaces,
                                                                      inputs.step.network))};
}

/// Examines the files on one node only, since all nodes see the same.
std::string purge_warning_of(const TaskInputs& inputs) {
  const auto look = [settings = inputs.settings, environment = inputs.environment] {
    return storage::purge_warning(settings, environment).value_or("");
  };
  return run_with_timeout(patience_of(inputs), look).value_or("");
}

FolderFacts scratch_of(const TaskInputs& inputs) {
  const std::string& configured = inputs.settings.scratch_folder;
  const Result<std::string> path = settings::expand_path(configured, inputs.environment, "scratch.folder");
  if (!path) {
    return {};
  }
  std::optional<FolderFacts> facts =
      run_with_timeout(patience_of(inputs), [folder = *path] { return observe_folder(folder); });
  if (facts && inputs.step.facts.node_rank == 0) {
    facts->purge_warning = purge_warning_of(inputs);
  }
  FolderFacts hanging;
  hanging.path = *path;
  hanging.error = "the file system does not respond";
  return facts.value_or(hanging);
}

VenvFacts venv_of(const TaskInputs& inputs) {
  const std::string& configured = inputs.settings.venv;
  std::string path = inputs.environment.get(env::kVirtualEnv).value_or("");
  if (!configured.empty()) {
    const Result<std::string> expanded = settings::expand_path(configured, inputs.environment, "venv");
    if (!expanded) {
      return {configured, "", expanded.error().reason};
    }
    path = *expanded;
  }
  if (path.empty()) {
    return {};
  }
  const auto patience = patience_of(inputs);
  const std::optional<VenvFacts> facts = run_with_timeout(patience * 1.5, [=] { return observe_venv(path, patience); });
  return facts.value_or(VenvFacts{path, "", "the file system does not respond"});
}

/// Returns the node's number of GPUs; in a task, SLURM_STEP_GPUS may name only its own.
std::int64_t slurm_gpus(const Environment& environment) {
  const auto gpus = environment.get_non_empty(env::kSlurmStepGpus);
  const auto named = static_cast<std::int64_t>(split(gpus.value_or(""), ',').size());
  return std::max(named, parse_integer<std::int64_t>(environment.get(env::kSlurmGpusOnNode).value_or("")).value_or(0));
}

Versions versions_here(const TaskInputs& inputs) {
  Versions versions = observe_versions(inputs);
  versions.rollcall = ROLLCALL_VERSION;
  return versions;
}

std::string program_for_collectives(const TaskInputs& inputs) {
  const auto look = [environment = inputs.environment] { return bench_program(environment); };
  return run_with_timeout(patience_of(inputs), look).value_or("");
}

/// Returns the addresses of the interface to the other nodes, then this node's names by the site's rule.
std::vector<std::string> ring_addresses(const TaskInputs& inputs) {
  std::vector<std::string> addresses;
  for (const network::Interface& interface : inputs.step.network.interfaces) {
    for (const network::Address& address : interface.addresses) {
      if (interface.name == inputs.step.network.route_interface && !address.link_local) {
        addresses.push_back(address.text);
      }
    }
  }
  for (std::string& name : network::candidate_names(inputs.settings.host_template, inputs.step.facts.this_host)) {
    addresses.push_back(std::move(name));
  }
  if (inputs.step.facts.num_nodes == 1) {
    addresses.emplace_back("127.0.0.1");
  }
  return addresses;
}

bool is_of_this_step(const TaskInputs& inputs) {
  const std::string step = inputs.environment.get(env::kStep).value_or("");
  return inputs.step.facts.job_id && inputs.step.facts.step_id &&
         step == std::to_string(*inputs.step.facts.job_id) + "." + std::to_string(*inputs.step.facts.step_id);
}

std::string host_of(const TaskInputs& inputs) {
  const std::string& slurms = inputs.step.facts.this_host;
  return slurms.empty() ? inputs.step.network.host_name : slurms;
}

/// Observes the GPUs within a time limit, since a driver may hang.
GpuFacts gpus_of(const TaskInputs& inputs) {
  const auto look = [environment = inputs.environment] { return observe_task_gpus(environment, "/"); };
  return run_with_timeout(patience_of(inputs), look).value_or(GpuFacts());
}

NodeFacts observe_node(const TaskInputs& inputs) {
  return {.names = observe_names(inputs),
          .interfaces = observe_interfaces(inputs.step.network.interfaces, kSys),
          .interface_uses = interface_uses(inputs),
          .route_interface = inputs.step.network.route_interface.value_or(""),
          .gpus = observe_gpus(kSys),
          .adapters = observe_adapters(kSys),
          .slurm_gpus = slurm_gpus(inputs.environment),
          .scratch = scratch_of(inputs),
          .venv = venv_of(inputs),
          .versions = versions_here(inputs),
          .shm_bytes = file_system_bytes("/dev/shm"),
          .cores = online_cores(kSys),
          .bench_program = program_for_collectives(inputs)};
}

}  // namespace

TaskFacts observe_task(const TaskInputs& inputs) {
  return {.rank = inputs.step.facts.rank,
          .local_rank = inputs.step.facts.local_rank,
          .node_rank = inputs.step.facts.node_rank,
          .host = host_of(inputs),
          .cores = cores_of(cpus_of_this_process(), kSys),
          .numa_nodes = numa_nodes_of(cpus_of_this_process(), kSys),
          .gpus = gpus_of(inputs),
          .locked_memory = locked_memory(),
          .resolve_error = inputs.patch ? "" : inputs.patch.error().text(),
          .warnings = inputs.patch ? inputs.patch->all_warnings() : std::vector<std::string>(),
          .environment_set = is_of_this_step(inputs),
          .head = {},  // set once rank 0 is found
          .ring_port = inputs.ring_port,
          .ring_addresses = ring_addresses(inputs),
          .first_on_node = inputs.step.facts.local_rank == 0,
          .node = inputs.step.facts.local_rank == 0 ? observe_node(inputs)
                                                    : NodeFacts()};  // the node's other ranks would see the same
}

std::string reverse_name(const std::string& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* list = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &list) != 0) {
    return "";
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, freeaddrinfo);
  std::array<char, NI_MAXHOST> name{};
  const int error = getnameinfo(list->ai_addr, list->ai_addrlen, name.data(), name.size(), nullptr, 0, NI_NAMEREQD);
  return error == 0 ? name.data() : "";
}

}  // namespace rollcall::doctor

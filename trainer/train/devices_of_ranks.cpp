#include "trainer/train/devices_of_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/exit_codes.h"
#include "runtime/elastic/devices.h"
#include "runtime/job/gpu_request.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::train {
namespace {

/// Returns the NUMA node of a device according to the kernel (Documentation/ABI/testing/sysfs-bus-pci); empty if
/// unknown.
std::string numa_node_of(std::string bus) {
  std::ranges::transform(bus, bus.begin(), [](unsigned char letter) { return std::tolower(letter); });
  std::string node;
  std::ifstream("/sys/bus/pci/devices/" + bus + "/numa_node") >> node;
  return bus.empty() || node.starts_with('-') ? "" : node;
}

/// Returns the number of NVIDIA GPUs that this process may open, regardless of CUDA_VISIBLE_DEVICES, which NCCL
/// ignores. MIG instances cannot reach other GPUs in any case.
std::uint32_t openable(const JobContext& context) {
  const bool whole = context.device.type() == at::kCUDA && !context.device.facts().uuid.starts_with("MIG-");
  return whole ? elastic::count_nvidia_gpus(Environment()) : 0;
}

/// Describes this rank's device for the other ranks.
nlohmann::json shown_device(const JobContext& context, const Result<void>& taken) {
  const device::Facts& facts = context.device.facts();
  nlohmann::json shown{{"host", context.host},
                       {"type", c10::DeviceTypeName(context.device.type(), true)},
                       {"name", facts.name},
                       {"uuid", facts.uuid},
                       {"bus", facts.bus},
                       {"numa_node", numa_node_of(facts.bus)},
                       {"cpus", ranges_text(cpus_of_this_process())},
                       {"kernels", context.device.kernels() != nullptr},
                       {"openable", openable(context)},
                       {"shares", Environment::of_this_process().get("NCCL_MULTI_RANK_GPU_ENABLE") == "1"}};
  if (!taken) {
    const Error& error = taken.error();
    shown["error"] = {error.setting, error.value, error.reason, error.action};
    shown["kind"] = static_cast<int>(error.kind);
  }
  return shown;
}

/// Returns whether it is a MIG instance of a GPU.
bool is_instance(const nlohmann::json& shown) { return shown.at("uuid").get<std::string>().starts_with("MIG-"); }

/// Returns the error of a rank, which names the rank unless all ranks have the same error.
Error error_of(const std::vector<nlohmann::json>& shown, std::size_t rank) {
  const nlohmann::json& own = shown[rank];
  const auto texts = own.at("error").get<std::vector<std::string>>();
  const bool of_all = std::ranges::all_of(
      shown, [&](const nlohmann::json& other) { return other.value("error", nlohmann::json()) == own.at("error"); });
  const std::string who = of_all ? "" : fmt::format("rank {} on {}: ", rank, own.at("host").get<std::string>());
  return fail(texts.at(0), texts.at(1), who + texts.at(2), texts.at(3),
              error_kind(own.at("kind").get<int>()).value_or(ErrorKind::Internal));
}

/// Returns names of what no other rank may use: the device and, for a MIG instance, its GPU, by its place on the bus.
std::vector<std::string> claims_of(const nlohmann::json& shown) {
  const auto text = [&](const char* key) { return shown.at(key).get<std::string>(); };
  std::vector<std::string> claims;
  if (!text("uuid").empty()) {
    claims.push_back(text("uuid"));
  }
  if (is_instance(shown) && !text("bus").empty()) {
    claims.push_back(text("host") + " " + text("bus"));
  }
  return claims;
}

/// Returns the error of two ranks on one GPU. NCCL supports neither two ranks on one GPU nor on MIG instances of one
/// GPU, which cannot reach each other; since 2.30 it allows a try with NCCL_MULTI_RANK_GPU_ENABLE=1.
Error one_gpu_for_two(const std::vector<nlohmann::json>& shown, std::size_t first, std::size_t second) {
  const auto text = [&](const char* key) { return shown[second].at(key).get<std::string>(); };
  const bool same = shown[first].at("uuid") == shown[second].at("uuid");
  const auto on_host =
      std::ranges::count_if(shown, [&](const nlohmann::json& rank) { return rank.at("host") == text("host"); });
  return fail("--device", text("uuid"),
              same ? fmt::format("ranks {} and {} on {} use the same device", first, second, text("host"))
                   : fmt::format("ranks {} and {} on {} use MIG instances of one GPU, {}, which NCCL does not "
                                 "connect",
                                 first, second, text("host"), text("bus")),
              is_instance(shown[second]) ? "using GPUs without MIG, or using one rank for each GPU, or setting "
                                           "NCCL_MULTI_RANK_GPU_ENABLE=1 with NCCL 2.30 or later"
                                         : "requesting as many GPUs as tasks on a node, all visible to each task: " +
                                               job::gpus_for_every_task(static_cast<std::size_t>(on_host)),
              ErrorKind::Unavailable);
}

/// Checks that all ranks have a device of one kind and no two ranks one GPU. The result is the same on all ranks.
Result<void> check_devices(const std::vector<nlohmann::json>& shown) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < shown.size(); ++rank) {
    const auto text = [&](const char* key) { return shown[rank].at(key).get<std::string>(); };
    if (shown[rank].contains("error")) {
      return error_of(shown, rank);
    }
    if (text("type") != shown[0].at("type").get<std::string>()) {
      return fail("--device", text("type"),
                  fmt::format("rank {} on {} uses this kind of device and rank 0 uses {}", rank, text("host"),
                              shown[0].at("type").get<std::string>()),
                  "using nodes of one kind, or --device=cpu for all ranks", ErrorKind::Mismatch);
    }
    if (shown[rank].at("kernels") != shown[0].at("kernels")) {
      return fail("--own-kernels", "on",
                  fmt::format("rank {} on {} {} rollcall's own kernels, but rank 0 on {} {}", rank, text("host"),
                              shown[rank].at("kernels") ? "has" : "lacks", shown[0].at("host").get<std::string>(),
                              shown[0].at("kernels") ? "has them" : "does not"),
                  "using one installation and one kind of GPU on all nodes, or --own-kernels=off", ErrorKind::Mismatch);
    }
    for (const std::string& claim : claims_of(shown[rank])) {
      const auto [other, is_new] = rank_of.emplace(claim, rank);
      if (!is_new && !shown[rank].at("shares").get<bool>()) {
        return one_gpu_for_two(shown, other->second, rank);
      }
    }
  }
  return {};
}

/// "rank 3 on node2: cuda: NVIDIA H100 80GB HBM3, GPU-8e4c1b7a-..., 0000:3b:00.0, NUMA node 1, CPUs 16-31"
std::string line_of(const nlohmann::json& shown, std::size_t rank) {
  const auto text = [&](const char* key) { return shown.at(key).get<std::string>(); };
  std::string line = fmt::format("rank {} on {}: {}: {}", rank, text("host"), text("type"), text("name"));
  for (const std::string& more : {text("uuid"), text("bus")}) {
    line += more.empty() ? "" : ", " + more;
  }
  line += text("numa_node").empty() ? "" : ", NUMA node " + text("numa_node");
  return line + ", CPUs " + text("cpus");
}

/// Returns the lines of the first ranks, if they compute on devices.
std::vector<std::string> lines_of(const std::vector<nlohmann::json>& shown) {
  constexpr std::size_t kMost = 16;
  std::vector<std::string> lines;
  if (shown.front().at("type") == "cpu") {
    return lines;
  }
  for (std::size_t rank = 0; rank < std::min(shown.size(), kMost); ++rank) {
    lines.push_back(line_of(shown[rank], rank));
  }
  if (shown.size() > kMost) {
    lines.push_back(fmt::format("and {} more", counted(shown.size() - kMost, "rank")));
  }
  return lines;
}

}  // namespace

std::string ranges_text(const std::vector<std::uint32_t>& numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) {
      ++last;
    }
    text += (text.empty() ? "" : ",") + std::to_string(numbers[first]);
    text += last == first ? "" : "-" + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

std::string idle_devices_warning(const device::DeviceRequest& place, std::uint32_t visible) {
  if (place.local_world_size >= visible) {
    return "";
  }
  return fmt::format(
      "--device: {}: {} devices are visible to this task, but {} on this node {} one each, so {} {} idle; try running "
      "one rank for each device: srun --ntasks-per-node={}",
      place.asked, visible, counted(place.local_world_size, "rank"), place.local_world_size == 1 ? "uses" : "use",
      visible - place.local_world_size, visible - place.local_world_size == 1 ? "is" : "are", visible);
}

std::string mixed_devices_warning(const std::vector<DeviceOfRank>& ranks) {
  const auto other =
      std::ranges::find_if(ranks, [&](const DeviceOfRank& rank) { return rank.name != ranks.front().name; });
  if (other == ranks.end()) {
    return "";
  }
  const auto alike = [&](const DeviceOfRank& rank) { return rank.name == ranks.front().name; };
  return fmt::format(
      "--device: ranks use devices of different models: {} of {} use {}, but rank {} on {} uses {}; every step takes "
      "as "
      "long as on the slowest device; try using nodes of one kind (sbatch --constraint), or --gpus-per-node=TYPE:N",
      std::ranges::count_if(ranks, alike), ranks.size(), ranks.front().name, other - ranks.begin(), other->host,
      other->name);
}

std::string hidden_devices_warning(const std::vector<DeviceOfRank>& ranks) {
  std::map<std::string, std::uint32_t> on_host;
  for (const DeviceOfRank& rank : ranks) {
    on_host[rank.host] += 1;
  }
  const auto misses = [&](const DeviceOfRank& rank) { return rank.openable > 0 && rank.openable < on_host[rank.host]; };
  const auto first = std::ranges::find_if(ranks, misses);
  if (first == ranks.end()) {
    return "";
  }
  return fmt::format(
      "--device: {} of {} ranks may not open the GPUs of other ranks on their node ({} of {} on {}), so NCCL reaches "
      "these through main memory or the network instead of NVLink; try {}",
      std::ranges::count_if(ranks, misses), ranks.size(), first->openable, on_host[first->host], first->host,
      job::gpus_for_every_task(on_host[first->host]));
}

std::vector<std::string> device_lines(const JobContext& context) { return lines_of({shown_device(context, {})}); }

Result<void> agree_on_devices(JobContext& context, const process_group::Group& hosts, const Result<void>& taken) {
  ASSIGN_OR_RETURN(const std::vector<nlohmann::json> shown, all_gather_json(hosts, shown_device(context, taken)));
  Result<void> checked = check_devices(shown);
  context.device_lines = checked ? lines_of(shown) : std::vector<std::string>();
  std::vector<DeviceOfRank> devices;
  devices.reserve(shown.size());
  for (const nlohmann::json& rank : shown) {
    devices.push_back({rank.at("host").get<std::string>(), rank.at("name").get<std::string>(),
                       rank.at("openable").get<std::uint32_t>()});
  }
  for (std::string& warning : checked ? std::vector{mixed_devices_warning(devices), hidden_devices_warning(devices)}
                                      : std::vector<std::string>()) {
    if (!warning.empty()) {
      context.device_warnings.push_back(std::move(warning));
    }
  }
  return checked;
}

}  // namespace rollcall::train

#include "trainer/train/devices_of_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/environment.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/contract/exit_codes.h"
#include "trainer/device/nccl_log.h"
#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::train {
namespace {

/// The NUMA node of a device, as the kernel says (Documentation/ABI/testing/sysfs-bus-pci); empty where it does not.
std::string numa_node_of(std::string bus) {
  std::ranges::transform(bus, bus.begin(), [](unsigned char letter) { return std::tolower(letter); });
  std::string node;
  std::ifstream("/sys/bus/pci/devices/" + bus + "/numa_node") >> node;
  return bus.empty() || node.starts_with('-') ? "" : node;
}

/// The InfiniBand adapter that NCCL leaves aside in this process; empty where no other node is to be reached, or
/// somebody chose the network.
std::string left_aside(const World& world) {
  const Environment environment = Environment::of_this_process();
  const bool chosen = environment.get_non_empty(env::kNcclNet) || environment.get("NCCL_IB_DISABLE") == "1";
  return world.num_nodes > 1 && !chosen && device::network_of(device::nccl_log()) == "Socket"
             ? device::active_infiniband()
             : "";
}

/// What a rank tells the others of where it computes.
nlohmann::json shown_device(const World& world, const Result<void>& taken) {
  const device::Facts& facts = world.device.facts();
  nlohmann::json shown{{"host", world.host},
                       {"type", c10::DeviceTypeName(world.device.type(), true)},
                       {"name", facts.name},
                       {"uuid", facts.uuid},
                       {"bus", facts.bus},
                       {"numa_node", numa_node_of(facts.bus)},
                       {"cpus", ranges_text(cpus_of_this_process())},
                       {"left_aside", world.left_aside}};
  if (!taken) {
    const Error& error = taken.error();
    shown["error"] = {error.setting, error.value, error.reason, error.action};
    shown["code"] = to_int(error.exit_code);
  }
  return shown;
}

Error error_of(const nlohmann::json& shown, std::size_t rank) {
  const auto texts = shown.at("error").get<std::vector<std::string>>();
  return fail(texts.at(0), texts.at(1),
              fmt::format("rank {} on {}: {}", rank, shown.at("host").get<std::string>(), texts.at(2)), texts.at(3),
              static_cast<ExitCode>(shown.at("code").get<int>()));
}

/// Whether all ranks have a device, of one kind, and no two the same one. The same on all ranks.
Result<void> check_devices(const std::vector<nlohmann::json>& shown) {
  std::map<std::string, std::size_t> rank_of;
  for (std::size_t rank = 0; rank < shown.size(); ++rank) {
    const auto text = [&](const char* key) { return shown[rank].at(key).get<std::string>(); };
    if (shown[rank].contains("error")) {
      return error_of(shown[rank], rank);
    }
    if (text("type") != shown[0].at("type").get<std::string>()) {
      return fail("--device", text("type"),
                  fmt::format("rank {} on {} computes on it, and rank 0 on {}", rank, text("host"),
                              shown[0].at("type").get<std::string>()),
                  "nodes that are alike, or --device=cpu for all ranks", ExitCode::Mismatch);
    }
    const auto [same, is_new] = rank_of.emplace(text("uuid"), rank);
    if (!is_new && !text("uuid").empty()) {
      return fail("--device", text("uuid"),
                  fmt::format("ranks {} and {} on {} compute on this one", same->second, rank, text("host")),
                  "as many GPUs as tasks on a node (--gpus-per-node), all visible to each task (--gpu-bind=none)",
                  ExitCode::Unavailable);
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

/// Of the first ranks, where they compute on devices.
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
    lines.push_back(fmt::format("and {} ranks more", shown.size() - kMost));
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

std::string idle_devices_warning(const device::Place& place, std::uint32_t visible) {
  if (place.local_world_size >= visible) {
    return "";
  }
  return fmt::format(
      "--device: {}: {} devices are visible to this task, and {} on this node {} with one each: {} idle; try a rank "
      "for each device: srun --ntasks-per-node={}",
      place.asked, visible, place.local_world_size == 1 ? "one rank" : fmt::format("{} ranks", place.local_world_size),
      place.local_world_size == 1 ? "computes" : "compute", visible - place.local_world_size, visible);
}

std::string slow_network_warning(const std::vector<NetworkOfRank>& ranks) {
  const auto slow = [](const NetworkOfRank& rank) { return !rank.left_aside.empty(); };
  const auto first = std::ranges::find_if(ranks, slow);
  if (first == ranks.end()) {
    return "";
  }
  return fmt::format(
      "NCCL: NET/Socket: {} of {} ranks send by TCP although {} on {} is InfiniBand with an active port: gradients "
      "travel slowly; try to see whether the task has /dev/infiniband and libibverbs (in a container, too), and "
      "whether NCCL_IB_HCA leaves it out (nccl-rank-N.log in the run's folder has what NCCL says); NCCL_NET=Socket "
      "says that it is meant",
      std::ranges::count_if(ranks, slow), ranks.size(), first->left_aside, first->host);
}

std::vector<std::string> device_lines(const World& world) { return lines_of({shown_device(world, {})}); }

Result<void> agree_on_devices(World& world, const Result<void>& taken) {
  constexpr auto kAnyText = nlohmann::json::error_handler_t::replace;
  world.left_aside = left_aside(world);
  const std::string mine = shown_device(world, taken).dump(-1, ' ', false, kAnyText);
  const Result<std::vector<std::vector<std::uint8_t>>> texts =
      process_group::all_gather_bytes(world.process_group, {mine.begin(), mine.end()});
  if (!texts) {
    return texts.error();
  }
  std::vector<nlohmann::json> shown;
  shown.reserve(texts->size());
  for (const std::vector<std::uint8_t>& text : *texts) {
    shown.push_back(nlohmann::json::parse(text));
  }
  Result<void> checked = check_devices(shown);
  world.device_lines = checked ? lines_of(shown) : std::vector<std::string>();
  std::vector<NetworkOfRank> networks;
  for (const nlohmann::json& rank : shown) {
    networks.push_back({rank.at("host").get<std::string>(), rank.at("left_aside").get<std::string>()});
  }
  if (std::string warning = slow_network_warning(networks); !warning.empty()) {
    world.device_warnings.push_back(std::move(warning));
  }
  return checked;
}

}  // namespace rollcall::train

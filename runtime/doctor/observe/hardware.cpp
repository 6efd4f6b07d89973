#include "runtime/doctor/observe/observe.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

#include "runtime/base/cpu_list.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::doctor {
namespace {

namespace fs = std::filesystem;

int numa_of(const fs::path& device) { return parse_integer<int>(first_line_of(device / "numa_node")).value_or(-1); }

bool is_pci_address(const std::string& name) { return name.size() == 12 && name[4] == ':' && name[10] == '.'; }

// PCI vendors.
constexpr std::string_view kNvidia = "0x10de";
constexpr std::string_view kAmd = "0x1002";

bool is_gpu_maker(const std::string& vendor) { return vendor == kNvidia || vendor == kAmd; }

/// A GPU that this process may open.
struct OpenGpu {
  Device device;
  std::string uuid = "";  ///< "GPU-4e8f..."; empty: unknown
};

bool may_open(const fs::path& file) { return ::access(file.c_str(), R_OK | W_OK) == 0; }

/// Returns the value of a line `NAME: VALUE` of /proc/driver/nvidia/gpus/*/information.
std::string information(const fs::path& file, std::string_view name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (const std::size_t colon = line.find(':'); colon != std::string::npos && line.substr(0, colon) == name) {
      return std::string(trim(line.substr(colon + 1)));
    }
  }
  return "";
}

std::vector<OpenGpu> open_gpus_of_nvidia(const fs::path& root) {
  std::vector<OpenGpu> gpus;
  for (const fs::path& gpu : entries_of(root / "proc/driver/nvidia/gpus")) {
    const fs::path file = gpu / "information";
    if (const std::string minor = information(file, "Device Minor");
        !minor.empty() && may_open(root / "dev" / ("nvidia" + minor))) {
      const std::string address = gpu.filename();
      gpus.push_back({{address, numa_of(root / "sys/bus/pci/devices" / address)}, information(file, "GPU UUID")});
    }
  }
  return gpus;
}

std::vector<OpenGpu> open_gpus_of_amd(const fs::path& root) {
  std::map<std::string, Device> by_address;
  for (const fs::path& node : entries_of(root / "dev/dri")) {
    std::error_code error;
    const fs::path device = fs::canonical(root / "sys/class/drm" / node.filename() / "device", error);
    if (!error && node.filename().string().starts_with("renderD") && first_line_of(device / "vendor") == kAmd &&
        may_open(node)) {
      by_address[device.filename()] = {device.filename(), numa_of(device)};
    }
  }
  std::vector<OpenGpu> gpus;
  gpus.reserve(by_address.size());
  for (const auto& [address, device] : by_address) {
    gpus.push_back({device});
  }
  return gpus;
}

/// Returns the GPUs that a variable like CUDA_VISIBLE_DEVICES leaves visible: numbers or beginnings of UUIDs, up to the
/// first invalid entry.
std::vector<OpenGpu> left_visible(const std::vector<OpenGpu>& gpus, const std::optional<std::string>& variable) {
  if (!variable) {
    return gpus;
  }
  std::vector<OpenGpu> visible;
  for (const std::string& part : split(*variable, ',')) {
    const std::string entry(trim(part));
    const auto number = parse_integer<std::size_t>(entry);
    const auto named =
        std::ranges::find_if(gpus, [&](const OpenGpu& gpu) { return !entry.empty() && gpu.uuid.starts_with(entry); });
    if (number && *number < gpus.size()) {
      visible.push_back(gpus[*number]);
    } else if (named != gpus.end()) {
      visible.push_back(*named);
    } else if (entry.starts_with("MIG-") || entry.starts_with("GPU-")) {
      visible.push_back({.device = {entry}, .uuid = entry});
    } else {
      break;
    }
  }
  return visible;
}

std::vector<Device> devices_of(const std::vector<OpenGpu>& gpus) {
  std::vector<Device> devices;
  std::ranges::transform(gpus, std::back_inserter(devices), &OpenGpu::device);
  return devices;
}

}  // namespace

/// HIP applies its own variable after ROCm's, and CUDA's where its own is not set (ROCm's manual, "GPU isolation
/// techniques").
GpuFacts observe_task_gpus(const Environment& environment, const fs::path& root) {
  const std::vector<OpenGpu> nvidia = open_gpus_of_nvidia(root);
  if (!nvidia.empty()) {
    return {devices_of(left_visible(nvidia, environment.get(env::kCudaVisible))), nvidia.size()};
  }
  const std::vector<OpenGpu> amd = open_gpus_of_amd(root);
  const auto hip = environment.get("HIP_VISIBLE_DEVICES");
  const std::vector<OpenGpu> left = left_visible(amd, environment.get("ROCR_VISIBLE_DEVICES"));
  return {devices_of(left_visible(left, hip ? hip : environment.get(env::kCudaVisible))), amd.size()};
}

std::vector<int> numa_nodes_of(const std::vector<std::uint32_t>& cpus, const fs::path& sys) {
  constexpr std::string_view kNode = "node";
  std::vector<int> nodes;
  for (const fs::path& path : entries_of(sys / "devices/system/node")) {
    const std::string name = path.filename();
    const int node = name.starts_with(kNode) ? parse_integer<int>(name.substr(kNode.size())).value_or(-1) : -1;
    const std::vector<std::uint32_t> own = parse_cpu_list(first_line_of(path / "cpulist"));
    if (node >= 0 && std::ranges::any_of(own, [&](std::uint32_t cpu) { return std::ranges::count(cpus, cpu) > 0; })) {
      nodes.push_back(node);
    }
  }
  std::ranges::sort(nodes);
  return nodes;
}

std::vector<Device> observe_gpus(const fs::path& sys) {
  std::map<std::string, int> numa_by_address;
  for (const char* driver : {"nvidia", "amdgpu"}) {
    for (const fs::path& device : entries_of(sys / "bus/pci/drivers" / driver)) {
      if (is_pci_address(device.filename())) {
        numa_by_address[device.filename()] = numa_of(device);
      }
    }
  }
  for (const fs::path& card : entries_of(sys / "class/drm")) {
    std::error_code error;
    const fs::path device = fs::canonical(card / "device", error);
    if (!error && is_pci_address(device.filename()) && is_gpu_maker(first_line_of(device / "vendor"))) {
      numa_by_address[device.filename()] = numa_of(device);
    }
  }
  std::vector<Device> gpus;
  gpus.reserve(numa_by_address.size());
  for (const auto& [address, numa] : numa_by_address) {
    gpus.push_back({address, numa});
  }
  return gpus;
}

std::vector<Device> observe_adapters(const fs::path& sys) {
  std::vector<Device> adapters;
  for (const fs::path& path : entries_of(sys / "class/infiniband")) {
    Device adapter{path.filename(), numa_of(path / "device"), false};
    for (const fs::path& port : entries_of(path / "ports")) {
      // "4: ACTIVE" and "200 Gb/sec (4X HDR)"
      adapter.active = adapter.active || first_line_of(port / "state").ends_with("ACTIVE");
      const std::string rate = first_line_of(port / "rate");
      const auto gigabits = parse_integer<int>(rate.substr(0, rate.find_first_of(" .")));
      adapter.gigabits = std::max(adapter.gigabits, static_cast<double>(gigabits.value_or(-1)));
    }
    adapters.push_back(adapter);
  }
  return adapters;
}

std::vector<InterfaceFacts> observe_interfaces(const std::vector<network::Interface>& interfaces, const fs::path& sys) {
  std::vector<InterfaceFacts> facts;
  facts.reserve(interfaces.size());
  for (const network::Interface& interface : interfaces) {
    const auto speed = parse_integer<std::int64_t>(first_line_of(sys / "class/net" / interface.name / "speed"));
    facts.push_back({interface.name, interface.up, interface.loopback, speed && *speed > 0 ? *speed : -1});
  }
  return facts;
}

std::vector<std::uint32_t> cores_of(const std::vector<std::uint32_t>& cpus, const std::filesystem::path& sys) {
  std::set<std::uint32_t> cores;
  for (const std::uint32_t cpu : cpus) {
    const auto file = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology/thread_siblings_list";
    const std::vector<std::uint32_t> siblings = parse_cpu_list(first_line_of(file));
    cores.insert(siblings.empty() ? cpu : siblings.front());
  }
  return {cores.begin(), cores.end()};
}

std::uint64_t online_cores(const std::filesystem::path& sys) {
  return cores_of(parse_cpu_list(first_line_of(sys / "devices/system/cpu/online")), sys).size();
}

}  // namespace rollcall::doctor

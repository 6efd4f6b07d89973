#include "runtime/doctor/observe/observe.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <system_error>

#include "runtime/base/text.h"

namespace rollcall::doctor {
namespace {

namespace fs = std::filesystem;

/// The first line of a file of /sys; empty where it cannot be read (a link that is down refuses to tell its speed).
std::string line_of(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return std::string(trim(line));
}

int numa_of(const fs::path& device) { return parse_integer<int>(line_of(device / "numa_node")).value_or(-1); }

/// The entries of a folder, sorted; none where it is absent.
std::vector<fs::path> entries(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> found;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

bool is_pci_address(const std::string& name) { return name.size() == 12 && name[4] == ':' && name[10] == '.'; }

/// PCI vendors NVIDIA and AMD.
bool is_gpu_maker(const std::string& vendor) { return vendor == "0x10de" || vendor == "0x1002"; }

constexpr int kMostCpus = 1 << 16;

}  // namespace

std::vector<Device> observe_gpus(const fs::path& sys) {
  std::map<std::string, int> numa_by_address;
  for (const char* driver : {"nvidia", "amdgpu"}) {
    for (const fs::path& device : entries(sys / "bus/pci/drivers" / driver)) {
      if (is_pci_address(device.filename())) {
        numa_by_address[device.filename()] = numa_of(device);
      }
    }
  }
  for (const fs::path& card : entries(sys / "class/drm")) {
    std::error_code error;
    const fs::path device = fs::canonical(card / "device", error);
    if (!error && is_pci_address(device.filename()) && is_gpu_maker(line_of(device / "vendor"))) {
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
  for (const fs::path& path : entries(sys / "class/infiniband")) {
    Device adapter{path.filename(), numa_of(path / "device"), false};
    for (const fs::path& port : entries(path / "ports")) {
      // "4: ACTIVE" and "200 Gb/sec (4X HDR)"
      adapter.active = adapter.active || line_of(port / "state").ends_with("ACTIVE");
      const std::string rate = line_of(port / "rate");
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
    const auto speed = parse_integer<std::int64_t>(line_of(sys / "class/net" / interface.name / "speed"));
    facts.push_back({interface.name, interface.up, interface.loopback, speed && *speed > 0 ? *speed : -1});
  }
  return facts;
}

std::vector<std::uint32_t> parse_cpu_list(const std::string& text) {
  std::vector<std::uint32_t> cpus;
  for (const std::string& part : split(trim(text), ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_integer<std::uint32_t>(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer<std::uint32_t>(part.substr(dash + 1));
    for (std::uint32_t cpu = first.value_or(1); first && last && cpu <= std::min<std::uint32_t>(*last, kMostCpus);
         ++cpu) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

std::vector<std::uint32_t> cores_of(const std::vector<std::uint32_t>& cpus, const std::filesystem::path& sys) {
  std::set<std::uint32_t> cores;
  for (const std::uint32_t cpu : cpus) {
    const auto file = sys / "devices/system/cpu" / ("cpu" + std::to_string(cpu)) / "topology/thread_siblings_list";
    const std::vector<std::uint32_t> siblings = parse_cpu_list(line_of(file));
    cores.insert(siblings.empty() ? cpu : siblings.front());
  }
  return {cores.begin(), cores.end()};
}

std::uint64_t online_cores(const std::filesystem::path& sys) {
  return cores_of(parse_cpu_list(line_of(sys / "devices/system/cpu/online")), sys).size();
}

}  // namespace rollcall::doctor

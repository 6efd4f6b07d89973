#include "runtime/doctor/observe/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <memory>
#include <set>
#include <string>

#include "runtime/base/text.h"

namespace rollcall::doctor {
namespace {

constexpr int kMostCpus = 1 << 16;

std::string line_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

}  // namespace

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

std::vector<std::uint32_t> own_cpus() {
  // The kernel refuses a mask smaller than its own (EINVAL), so this one holds more than any kernel is built for.
  const std::size_t bytes = CPU_ALLOC_SIZE(kMostCpus);
  struct Free {
    void operator()(cpu_set_t* mask) const { CPU_FREE(mask); }
  };
  const std::unique_ptr<cpu_set_t, Free> mask(CPU_ALLOC(kMostCpus));
  std::vector<std::uint32_t> cpus;
  if (mask && sched_getaffinity(0, bytes, mask.get()) == 0) {
    for (std::uint32_t cpu = 0; cpu < kMostCpus; ++cpu) {
      if (CPU_ISSET_S(cpu, bytes, mask.get())) {
        cpus.push_back(cpu);
      }
    }
  }
  return cpus;
}

std::uint64_t online_cores(const std::filesystem::path& sys) {
  return cores_of(parse_cpu_list(line_of(sys / "devices/system/cpu/online")), sys).size();
}

}  // namespace rollcall::doctor

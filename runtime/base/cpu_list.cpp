#include "runtime/base/cpu_list.h"

#include <algorithm>

#include "runtime/base/text.h"

namespace rollcall {

std::vector<std::uint32_t> parse_cpu_list(const std::string& text) {
  constexpr std::uint32_t kMostCpus = 1 << 16;
  std::vector<std::uint32_t> cpus;
  for (const std::string& part : split(trim(text), ',')) {
    const std::size_t dash = part.find('-');
    const auto first = parse_integer<std::uint32_t>(part.substr(0, dash));
    const auto last = dash == std::string::npos ? first : parse_integer<std::uint32_t>(part.substr(dash + 1));
    for (std::uint32_t cpu = first.value_or(1); first && last && cpu <= std::min(*last, kMostCpus); ++cpu) {
      cpus.push_back(cpu);
    }
  }
  return cpus;
}

}  // namespace rollcall

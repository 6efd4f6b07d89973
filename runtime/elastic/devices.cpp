#include "runtime/elastic/devices.h"

#include <unistd.h>

#include <algorithm>
#include <set>
#include <string>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::elastic {
namespace {

namespace fs = std::filesystem;

/// Returns the entries of a folder whose names are `beginning` and a number.
std::vector<fs::path> numbered(const fs::path& folder, std::string_view beginning) {
  std::vector<fs::path> found = rollcall::entries_of(folder);
  std::erase_if(found, [beginning](const fs::path& path) {
    const std::string name = path.filename();
    return !name.starts_with(beginning) || !parse_integer<std::uint32_t>(name.substr(beginning.size()));
  });
  return found;
}

bool usable(const fs::path& path) { return ::access(path.c_str(), R_OK | W_OK) == 0; }

std::uint32_t nvidia_gpus(const fs::path& root) {
  return static_cast<std::uint32_t>(std::ranges::count_if(numbered(root / "dev", "nvidia"), usable));
}

/// Counts the nodes of AMD's topology with compute units, which are GPUs; the others are CPUs.
std::uint32_t amd_gpus(const fs::path& root) {
  if (!usable(root / "dev/kfd")) {
    return 0;
  }
  const auto is_gpu = [](const fs::path& node) {
    for (const std::string& line : split(content_of(node / "properties"), '\n')) {
      if (line.starts_with("simd_count ")) {
        return line != "simd_count 0";
      }
    }
    return false;
  };
  return static_cast<std::uint32_t>(
      std::ranges::count_if(numbered(root / "sys/class/kfd/kfd/topology/nodes", ""), is_gpu));
}

}  // namespace

std::uint32_t visible_devices(std::string_view list, std::uint32_t present) {
  std::set<std::string> seen;
  for (const std::string& word : split(list, ',')) {
    const std::string entry(trim(word));
    const auto index = parse_integer<std::int64_t>(entry);
    const bool names_one =
        index ? *index >= 0 && *index < present : entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!names_one || !seen.insert(entry).second || entry.starts_with("MIG-")) {
      break;
    }
  }
  return static_cast<std::uint32_t>(seen.size());
}

std::uint32_t count_gpus(const Environment& environment, const fs::path& root) {
  std::uint32_t count = nvidia_gpus(root);
  const bool amd = count == 0;
  count = amd ? amd_gpus(root) : count;
  for (const std::string_view name :
       {std::string_view("ROCR_VISIBLE_DEVICES"), std::string_view("HIP_VISIBLE_DEVICES"), env::kCudaVisible}) {
    const bool counts = amd || name == env::kCudaVisible;
    if (const auto list = environment.get(name); list && counts) {
      count = visible_devices(*list, count);
    }
  }
  return count;
}

std::uint32_t count_nvidia_gpus(const Environment& environment, const fs::path& root) {
  return nvidia_gpus(root) == 0 ? 0 : count_gpus(environment, root);
}

std::uint32_t count_xpus(const Environment& environment, const fs::path& root) {
  std::uint32_t count = 0;
  for (const fs::path& node : numbered(root / "sys/class/drm", "renderD")) {
    const bool intel = first_line_of(node / "device/vendor") == "0x8086";
    count += intel && usable(root / "dev/dri" / node.filename()) ? 1U : 0U;
  }
  const auto mask = environment.get_non_empty("ZE_AFFINITY_MASK");
  return mask ? visible_devices(*mask, count) : count;
}

}  // namespace rollcall::elastic

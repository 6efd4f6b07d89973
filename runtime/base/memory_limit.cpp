#include "runtime/base/memory_limit.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"

namespace rollcall {
namespace {

constexpr std::size_t kMostBytes = 1 << 16;

std::string content_of(const std::string& path) {
  std::string content;
  return read_small_file(path, kMostBytes, content).reason.empty() ? content : "";
}

/// "MemTotal:       24602816 kB" of /proc/meminfo.
std::optional<std::uint64_t> memory_of_machine(const std::string& root) {
  for (const std::string& line : split(content_of(root + "/proc/meminfo"), '\n')) {
    if (line.starts_with("MemTotal:")) {
      const std::string_view number = trim(std::string_view(line).substr(line.find(':') + 1));
      const auto kibibytes = parse_integer<std::uint64_t>(number.substr(0, number.find(' ')));
      return kibibytes ? std::optional(*kibibytes * 1024) : std::nullopt;
    }
  }
  return std::nullopt;
}

/// The smallest number in files `name` of the folder `mount` + `group` and of those above it, up to `mount`. What is no
/// number ("max") limits nothing; nor does a folder that is not there, as in a container that sees part of the tree.
std::optional<std::uint64_t> smallest(const std::string& mount, const std::string& group, const std::string& name) {
  std::optional<std::uint64_t> limit;
  for (std::filesystem::path folder = group; !folder.empty(); folder = folder.parent_path()) {
    const std::string path = mount + folder.string() + "/" + name;
    if (const auto bytes = parse_integer<std::uint64_t>(trim(content_of(path)))) {
      limit = std::min(limit.value_or(*bytes), *bytes);
    }
    if (folder == folder.parent_path()) {
      break;
    }
  }
  return limit;
}

/// By a line of /proc/self/cgroup: "0::/path" of version 2, "4:memory:/path" of version 1.
std::optional<std::uint64_t> limit_of_line(const std::string& root, const std::string& line) {
  const std::size_t first = line.find(':');
  const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
  if (second == std::string::npos) {
    return std::nullopt;
  }
  const std::string group = line.substr(second + 1);
  const std::vector<std::string> controllers = split(line.substr(first + 1, second - first - 1), ',');
  if (controllers.empty()) {
    return smallest(root + "/sys/fs/cgroup", group, "memory.max");
  }
  return std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()
             ? smallest(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes")
             : std::nullopt;
}

}  // namespace

std::uint64_t memory_limit(const std::string& root) {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t limit = memory_of_machine(root).value_or(kNone);
  for (const std::string& line : split(content_of(root + "/proc/self/cgroup"), '\n')) {
    limit = std::min(limit, limit_of_line(root, line).value_or(kNone));
  }
  return limit == kNone ? 0 : limit;
}

}  // namespace rollcall

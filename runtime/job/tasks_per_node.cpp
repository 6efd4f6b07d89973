#include "runtime/job/tasks_per_node.h"

#include <optional>

#include "runtime/base/text.h"
#include "runtime/job/node_list.h"

namespace rollcall::job {
namespace {

struct Run {
  std::uint32_t tasks = 0;
  std::uint32_t nodes = 1;
};

/// "2" or "2(x3)".
std::optional<Run> parse_run(std::string_view text) {
  const std::size_t open = text.find("(x");
  std::optional<std::uint32_t> nodes = 1;
  if (open != std::string_view::npos) {
    if (text.back() != ')') {
      return std::nullopt;
    }
    nodes = parse_integer<std::uint32_t>(text.substr(open + 2, text.size() - open - 3));
  }
  const auto tasks = parse_integer<std::uint32_t>(text.substr(0, open));
  if (!tasks || !nodes || *tasks == 0 || *nodes == 0) {
    return std::nullopt;
  }
  return Run{*tasks, *nodes};
}

}  // namespace

Result<std::vector<std::uint32_t>> expand_tasks_per_node(std::string_view text) {
  std::vector<std::uint32_t> counts;
  for (const std::string& part : split(text, ',')) {
    const std::optional<Run> run = parse_run(part);
    if (!run || run->nodes > kMaxNodes - counts.size()) {
      counts.clear();
      break;
    }
    counts.insert(counts.end(), run->nodes, run->tasks);
  }
  if (counts.empty()) {
    return fail("tasks per node", std::string(text), "is not in Slurm's notation 2(x3),1",
                "reporting it: Slurm sets it", ExitCode::Mismatch);
  }
  return counts;
}

}  // namespace rollcall::job

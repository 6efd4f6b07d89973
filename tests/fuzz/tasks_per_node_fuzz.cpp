// Any text as SLURM_STEP_TASKS_PER_NODE: counts or an Error; the counts written out are read as the same counts.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/job/node_list.h"
#include "tests/fuzz/require.h"

using rollcall::Result;
using rollcall::fuzz::require;
using rollcall::job::expand_tasks_per_node;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<std::vector<std::uint32_t>> counts = expand_tasks_per_node({reinterpret_cast<const char*>(data), size});
  if (!counts) {
    require(!counts.error().message().empty(), "an error says why");
    return 0;
  }
  require(!counts->empty() && counts->size() <= rollcall::job::kMaxNodes, "as many counts as a machine may have nodes");
  constexpr std::size_t kMost = 4096;  // more would only slow the search down
  std::string text;
  for (const std::uint32_t count : *counts) {
    require(count > 0, "a node of the step has tasks");
    if (counts->size() <= kMost) {
      text += (text.empty() ? "" : ",") + std::to_string(count);
    }
  }
  if (!text.empty()) {
    const Result<std::vector<std::uint32_t>> again = expand_tasks_per_node(text);
    require(again && *again == *counts, "counts written out are the same counts");
  }
  return 0;
}

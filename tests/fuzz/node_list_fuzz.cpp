// Any text as Slurm's node list: names or an Error; what was expanded stays itself when written out and read again.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/job/node_list.h"
#include "tests/fuzz/require.h"

using rollcall::Result;
using rollcall::fuzz::require;
using rollcall::job::expand_node_list;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Result<std::vector<std::string>> names = expand_node_list({reinterpret_cast<const char*>(data), size});
  if (!names) {
    require(!names.error().message().empty(), "an error says why");
    return 0;
  }
  require(!names->empty() && names->size() <= rollcall::job::kMaxNodes, "as many names as a machine may have");
  std::string joined;
  for (const std::string& name : *names) {
    require(!name.empty() && name.find_first_of("[], \n") == std::string::npos, "a name is a name");
    joined += (joined.empty() ? "" : ",") + name;
  }
  constexpr std::size_t kLongest = 1 << 16;  // a longer text would only slow the search down
  if (joined.size() <= kLongest) {
    const Result<std::vector<std::string>> again = expand_node_list(joined);
    require(again && *again == *names, "an expanded list is its own expansion");
  }
  return 0;
}

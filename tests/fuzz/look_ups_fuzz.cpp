// Any text as what tasks of one node share of their look-ups: sound names, whatever stands there.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/network/shared_look_ups.h"
#include "tests/fuzz/require.h"

using rollcall::printable;
using rollcall::fuzz::require;
using rollcall::network::parse_look_ups;
using rollcall::network::ResolvedName;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<ResolvedName> names = parse_look_ups({reinterpret_cast<const char*>(data), size});
  for (const ResolvedName& name : names) {
    require(!name.name.empty() && printable(name.name) == name.name, "a name can be shown");
    require(printable(name.error) == name.error, "an error can be shown");
    for (const auto& address : name.addresses) {
      require(!address.text.empty(), "an address has a notation");
    }
  }
  const std::string text = to_text(names);
  require(to_text(parse_look_ups(text)) == text, "what was read is written and read again as it is");
  return 0;
}

// Any text between agents of `rollcall run`, behind the seal: who knows the secret can say it, another version does.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/elastic/messages.h"
#include "tests/fuzz/require.h"

using namespace rollcall;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const std::optional<elastic::Report> report = elastic::parse_report(text)) {
    const std::string again = to_text(*report);
    const auto back = elastic::parse_report(again);
    require(back && to_text(*back) == again, "a report survives the journey");
  }
  if (const std::optional<elastic::Order> order = elastic::parse_order(text)) {
    const std::string again = to_text(*order);
    const auto back = elastic::parse_order(again);
    require(back && to_text(*back) == again, "an order survives the journey");
    require(order->outcome.exit_code >= 0 && order->outcome.exit_code <= 255,
            "a run ends with a code that a shell sees");
  }
  return 0;
}

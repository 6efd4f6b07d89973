// Any text as the argument of --ddp=.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "tests/fuzz/settings_properties.h"

using namespace rollcall;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  settings::Settings values(settings::launch_table());
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<void> applied = settings::apply_key_values(values, text, "--ddp");
  fuzz::require(applied || !applied.error().message().empty(), "an error says why");
  fuzz::require_sound(values);
  return 0;
}

// Any bytes as a site's or a user's TOML file.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/settings/launch_settings.h"
#include "runtime/settings/layers.h"
#include "tests/fuzz/settings_properties.h"

using namespace rollcall;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("profile.toml", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  const bool written = ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size);
  fuzz::require(written, "the profile was written");
  settings::Settings values(settings::launch_table());
  const Result<void> applied = settings::apply_toml_file(values, path, true);
  fuzz::require(applied || !applied.error().message().empty(), "an error says why");
  fuzz::require_sound(values);
  return 0;
}

#include "trainer/train/equal_settings.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <vector>

#include "trainer/config/identity.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::train {

std::string version_of_ranks() { return "rollcall " ROLLCALL_VERSION " with LibTorch " TORCH_VERSION; }

Result<void> confirm_equal_settings(const JobContext& context, const settings::Settings& mine, const std::string& json,
                                    const std::string& version) {
  if (context.world_size == 1) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string of_zero, broadcast_text(0, context.process_group, version + "\n" + json));
  const std::size_t end = of_zero.find('\n');
  if (const std::string other = of_zero.substr(0, end); other != version) {
    return fail("version", version,
                fmt::format("is the version of rank {} on {}, but rank 0 has {}", context.rank, context.host, other),
                "starting all ranks from one installation", ErrorKind::Mismatch);
  }
  const std::vector<config::Change> others = config::differences_among_ranks(of_zero.substr(end + 1), mine);
  if (others.empty()) {
    return {};
  }
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("no value") : value; };
  return fail(others.front().option, shown(others.front().now),
              fmt::format("is the value of rank {} on {}, but rank 0 has {}", context.rank, context.host,
                          shown(others.front().then)),
              "using the same options, ROLLCALL_* variables and profiles for all ranks", ErrorKind::Mismatch);
}

}  // namespace rollcall::train

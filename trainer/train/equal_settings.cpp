#include "trainer/train/equal_settings.h"

#include <fmt/format.h>
#include <vector>

#include "trainer/config/identity.h"
#include "trainer/train/object_collectives.h"

namespace rollcall::train {

Result<void> confirm_equal_settings(const JobContext& context, const settings::Settings& mine,
                                    const std::string& json) {
  if (context.world_size == 1) {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string of_zero, broadcast_text(0, context.process_group, json));
  const std::vector<config::Change> others = config::differences_among_ranks(of_zero, mine);
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

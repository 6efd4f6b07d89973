#include "runtime/doctor/observe/way.h"

#include <chrono>
#include <utility>

#include "runtime/doctor/observe/child.h"
#include "runtime/install/setup.h"

namespace rollcall::doctor {

Way observe_way(const Environment& environment) {
  const Result<std::string> help = output_of({"srun", "--help"}, std::chrono::seconds(5));
  install::Status status = install::install_status(environment);
  Way way;
  way.srun_exists = help.has_value();
  way.srun_has_option = help && help->find("--ddp") != std::string::npos;
  way.installation = install::way_name(status.way);
  way.plugin = std::move(status.plugin);
  way.problems = std::move(status.problems);
  return way;
}

}  // namespace rollcall::doctor

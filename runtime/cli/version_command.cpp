#include "runtime/base/small_file.h"
#include "runtime/base/this_process.h"
#include "runtime/cli/command.h"
#include "runtime/command_line/version.h"
#include "runtime/install/plugin_file.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/pmix.h"

namespace rollcall::cli {

std::string version_json() {
  nlohmann::ordered_json facts = command_line::build_facts("rollcall");
  facts["slurm"] = nlohmann::ordered_json::array();
  for (const std::string& plugin : install::plugins_beside(program_file().string(), job::names_in)) {
    if (const auto version = install::plugin_version(content_of(plugin, std::size_t{1} << 24))) {
      facts["slurm"].push_back(version->text());
    }
  }
  facts["features"] = {{"pmix", launchers::has_pmix()}};
  return facts.dump(2) + "\n";
}

}  // namespace rollcall::cli

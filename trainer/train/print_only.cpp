#include "trainer/train/print_only.h"

#include <fmt/format.h>
#include <torch/version.h>
#include <cstdio>
#include <filesystem>

#include "runtime/base/this_process.h"
#include "runtime/command_line/version.h"
#include "runtime/launchers/pmix.h"
#include "runtime/settings/settings.h"
#include "trainer/data/image/whole_picture.h"
#include "trainer/distributed/backends/backends.h"

namespace rollcall::train {
namespace {

std::string version_json() {
  const auto has_plugin = [](const char* name) {
    return find_in_installation(std::filesystem::path(ROLLCALL_PLUGIN_FOLDER) / name).file.has_value();
  };
  nlohmann::ordered_json facts = command_line::build_facts("rollcall-train");
  facts["libtorch"] = TORCH_VERSION;
  facts["features"] = {{"pmix", launchers::has_pmix()},
                       {"ucx", process_group::kUcx.add != nullptr},
                       {"mpi", has_plugin("rollcall_mpi.so")},
                       {"cuda", has_plugin("rollcall_cuda.so")},
                       {"image_formats", data::image_formats()}};
  return facts.dump(2) + "\n";
}

}  // namespace

void print_only(const config::Options& options) {
  switch (options.request) {
    case config::Request::Help:
    case config::Request::RecipeList:
      std::fputs(options.text.c_str(), stdout);
      break;
    case config::Request::Version:
      fmt::print("{}", options.json
                           ? version_json()
                           : fmt::format("rollcall-train {} (LibTorch {})\n", ROLLCALL_VERSION, TORCH_VERSION));
      break;
    case config::Request::PrintSettingsMarkdown:
      std::fputs(settings::settings_markdown("rollcall-train", config::trainer_table()).c_str(), stdout);
      break;
    default:
      std::fputs(settings::print_config(options.trainer, options.json).c_str(), stdout);
      std::fputs(settings::print_config(options.launch.given, options.json).c_str(), stdout);
  }
}

}  // namespace rollcall::train

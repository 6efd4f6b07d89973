#include "trainer/train/version.h"

#include <torch/version.h>
#include <filesystem>

#include "runtime/base/this_process.h"
#include "runtime/command_line/version.h"
#include "trainer/data/image/whole_picture.h"
#include "trainer/distributed/backends/backends.h"

namespace rollcall::train {

std::string version_json() {
#ifdef ROLLCALL_HAVE_PMIX
  constexpr bool kHasPmix = true;
#else
  constexpr bool kHasPmix = false;
#endif
  const auto has_plugin = [](const char* name) {
    return find_in_installation(std::filesystem::path(ROLLCALL_PLUGIN_FOLDER) / name).file.has_value();
  };
  nlohmann::ordered_json facts = command_line::build_facts("rollcall-train");
  facts["libtorch"] = TORCH_VERSION;
  facts["features"] = {{"pmix", kHasPmix},
                       {"ucx", process_group::kUcx.add != nullptr},
                       {"mpi", has_plugin("rollcall_mpi.so")},
                       {"cuda", has_plugin("rollcall_cuda.so")},
                       {"image_formats", data::image_formats()}};
  return facts.dump(2) + "\n";
}

}  // namespace rollcall::train

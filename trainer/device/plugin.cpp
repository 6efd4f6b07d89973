#include "trainer/device/plugin.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <mutex>

#include "runtime/base/plugin.h"

namespace rollcall::device {
namespace {

bool is_plugin_name(const std::string& name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](unsigned char c) { return std::islower(c) || std::isdigit(c) || c == '_'; });
}

Result<const Plugin*> opened(const std::string& name) {
  if (!is_plugin_name(name)) {
    return fail("--device", name, "is not the name of a device type", "--device=auto, --device=cpu or --device=cuda");
  }
  const PluginFile file{.setting = "--device",
                        .value = name,
                        .folder = ROLLCALL_PLUGIN_FOLDER,
                        .name = "rollcall_" + name + ".so",
                        .function = kPluginFunction,
                        .built = name == "cuda" ? "by preset cuda, where CMake finds CUDA's headers and NCCL's"
                                                : "by who brings that device",
                        .to_open = "using a node with its driver and LibTorch's libraries for it, or --device=cpu",
                        .instead = "--device=cpu"};
  ASSIGN_OR_RETURN(void* const found, find_plugin_function(file));
  const Plugin& plugin = *reinterpret_cast<PluginFunction>(found)();
  if (plugin.build != ROLLCALL_PLUGIN_BUILD) {
    return plugin_of_another_build(file);
  }
  return &plugin;
}

}  // namespace

Result<const Plugin*> open_plugin(const std::string& name) {
  static std::mutex mutex;
  static std::map<std::string, Result<const Plugin*>> known;
  const std::lock_guard lock(mutex);
  const auto found = known.find(name);
  return found != known.end() ? found->second : known.emplace(name, opened(name)).first->second;
}

}  // namespace rollcall::device

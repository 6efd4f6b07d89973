#include "runtime/base/plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <filesystem>

#include "runtime/base/this_process.h"

namespace rollcall {

Result<void*> find_plugin_function(const PluginFile& plugin) {
  const auto [file, passed_over] = find_in_installation(std::filesystem::path(plugin.folder) / plugin.name);
  if (!passed_over.empty()) {
    return fail(plugin.setting, plugin.value, fmt::format("{} is not trusted: {}", plugin.name, passed_over),
                "chown or chmod go-w there, or " + plugin.instead, ErrorKind::Configuration);
  }
  if (!file) {
    return fail(
        plugin.setting, plugin.value,
        fmt::format("{} is not in {} of this installation; it is built {}", plugin.name, plugin.folder, plugin.built),
        plugin.instead);
  }
  void* const library = ::dlopen(file->c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return fail(plugin.setting, plugin.value, ::dlerror(), plugin.to_open, ErrorKind::Unavailable);
  }
  void* const function = ::dlsym(library, plugin.function.c_str());
  if (function == nullptr) {
    return fail(plugin.setting, plugin.value, fmt::format("{} does not define {}", plugin.name, plugin.function),
                plugin.instead, ErrorKind::Configuration);
  }
  return function;
}

Error plugin_of_another_build(const PluginFile& plugin) {
  Error error = fail(plugin.setting, plugin.value,
                     fmt::format("{} in {} is from another build than this program", plugin.name, plugin.folder),
                     "installing both from one build", ErrorKind::Mismatch);
  error.of_this_node = true;  // other nodes may have a matching pair
  return error;
}

}  // namespace rollcall

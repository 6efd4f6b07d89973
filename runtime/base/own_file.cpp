#include "runtime/base/own_file.h"

#include <dlfcn.h>

namespace rollcall {
namespace {

/// The file of the program or plugin that this function was linked into. For a program the loader knows only what was
/// typed, which may lack the folder: then the kernel tells.
std::filesystem::path own_file() {
  Dl_info info{};
  std::error_code error;
  const int known = ::dladdr(reinterpret_cast<const void*>(&find_above_own_file), &info);
  const std::filesystem::path loaded = known != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  const bool shared_object = loaded.is_absolute() && loaded.extension() == ".so";
  return std::filesystem::canonical(shared_object ? loaded : std::filesystem::path("/proc/self/exe"), error);
}

}  // namespace

std::optional<std::filesystem::path> find_above_own_file(const std::filesystem::path& path) {
  constexpr int kLevels = 4;  // PREFIX/lib/ARCHITECTURE/rollcall/spank_rollcall.so
  std::filesystem::path above = own_file().parent_path();
  for (int level = 0; level < kLevels && above.has_relative_path(); ++level, above = above.parent_path()) {
    std::error_code error;
    if (std::filesystem::exists(above / path, error)) {
      return above / path;
    }
  }
  return std::nullopt;
}

}  // namespace rollcall

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/site_profile.h"
#include "runtime/settings/toml_source.h"

namespace rollcall::settings {
namespace {

constexpr const char* kSystemNameFile = "/etc/FZJ/systemname";  // all systems of the Jülich Supercomputing Centre

/// The file of the program or plugin that this function was linked into. For a program the loader knows only what was
/// typed, which may lack the folder: then the kernel tells.
std::filesystem::path own_file() {
  Dl_info info{};
  std::error_code error;
  const int known = ::dladdr(reinterpret_cast<const void*>(&clues_of_this_machine), &info);
  const std::filesystem::path loaded = known != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
  const bool shared_object = loaded.is_absolute() && loaded.extension() == ".so";
  return std::filesystem::canonical(shared_object ? loaded : std::filesystem::path("/proc/self/exe"), error);
}

}  // namespace

SiteClues clues_of_this_machine(const Environment& environment) {
  SiteClues clues;
  clues.variable = environment.get(env::kSystemName).value_or("");
  clues.cluster = environment.get(env::kSlurmClusterName).value_or("");
  std::string content;
  if (read_file(kSystemNameFile, content) == 0) {
    clues.file = trim(content.substr(0, content.find('\n')));
  }
  std::array<char, HOST_NAME_MAX + 1> name{};
  clues.host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
  return clues;
}

std::optional<std::string> installed_site_folder() {
  constexpr int kLevels = 4;  // PREFIX/lib/ARCHITECTURE/rollcall/spank_rollcall.so
  std::filesystem::path above = own_file().parent_path();
  for (int level = 0; level < kLevels && above.has_relative_path(); ++level, above = above.parent_path()) {
    const std::filesystem::path folder = above / "share" / "rollcall" / "site_config";
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) {
      return folder.string();
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::settings

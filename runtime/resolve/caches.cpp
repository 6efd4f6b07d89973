#include <array>
#include <string>

#include "runtime/resolve/groups.h"
#include "runtime/settings/path_expansion.h"

namespace rollcall::resolve {
namespace {

struct Cache {
  std::string_view variable;
  std::string_view folder;  ///< below the setting's folder
};

// Downloads are worth sharing; what a JIT compiles is not: processes of several nodes race for it on a shared file
// system.
constexpr std::array kShared{Cache{"TORCH_HOME", "torch"}, Cache{"HF_HOME", "huggingface"},
                             Cache{"XDG_CACHE_HOME", "xdg"}, Cache{"PIP_CACHE_DIR", "pip"}};
constexpr std::array kLocal{Cache{"TRITON_CACHE_DIR", "triton"}, Cache{"TORCHINDUCTOR_CACHE_DIR", "inductor"},
                            Cache{"TORCH_EXTENSIONS_DIR", "torch_extensions"}};

template <typename Caches>
Result<void> add_below(std::string_view setting, const Caches& caches, const Inputs& inputs, PatchBuilder& patch) {
  const std::string& configured = inputs.settings.text(setting);
  if (configured.empty()) {
    return {};
  }
  const Result<std::string> folder = settings::expand_path(configured, inputs.user, std::string(setting));
  if (!folder) {
    return folder.error();
  }
  for (const Cache& cache : caches) {
    patch.propose({cache.variable, *folder + "/" + std::string(cache.folder), "setting " + std::string(setting),
                   "below " + configured, setting});
  }
  return {};
}

}  // namespace

Result<void> add_caches(const Inputs& inputs, PatchBuilder& patch) {
  if (Result<void> added = add_below("cache.shared", kShared, inputs, patch); !added) {
    return added;
  }
  return add_below("cache.local", kLocal, inputs, patch);
}

}  // namespace rollcall::resolve

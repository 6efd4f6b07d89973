#include "runtime/resolve/caches.h"

#include <fmt/format.h>

#include <optional>
#include <string>

#include "runtime/resolve/patch_builder.h"
#include "runtime/settings/values.h"

namespace rollcall::resolve {
namespace {

/// The folder of cache.shared or cache.local.
struct Root {
  std::string_view setting;
  std::string configured;
  std::optional<std::string> folder;  ///< unset where the setting is empty or (with a warning) cannot be expanded
};

Root root_of(std::string_view setting, const std::string& configured, const Inputs& inputs, PatchBuilder& patch) {
  Root root{setting, configured, std::nullopt};
  if (!root.configured.empty()) {
    Result<std::string> folder = settings::expand_path(root.configured, inputs.user, std::string(setting));
    if (folder) {
      root.folder = std::move(*folder);
    } else {
      patch.warn(fmt::format("{}: {}: {}; variables of caches in it are not set", setting, root.configured,
                             folder.error().reason));
    }
  }
  return root;
}

}  // namespace

Result<void> add_caches(const Inputs& inputs, PatchBuilder& patch) {
  const Root shared = root_of("cache.shared", inputs.settings.shared_caches, inputs, patch);
  const Root local = root_of("cache.local", inputs.settings.local_caches, inputs, patch);
  for (const Cache& cache : kCaches) {
    const std::string& policy = inputs.settings.given.text(cache.setting);
    const Root& root = policy == "shared" ? shared : local;
    if (policy == "off" || !root.folder) {
      continue;
    }
    const std::string of_job = policy == "job" ? fmt::format("/job-{}", inputs.facts.job_id.value_or(0)) : "";
    const bool own_policy = !inputs.settings.given.is_default(cache.setting);
    patch.propose({cache.variable, fmt::format("{}{}/{}", *root.folder, of_job, cache.folder),
                   fmt::format("setting {}", own_policy ? cache.setting : root.setting),
                   fmt::format("policy {}, below {}", policy, root.configured),
                   own_policy ? cache.setting : root.setting});
  }
  return {};
}

}  // namespace rollcall::resolve

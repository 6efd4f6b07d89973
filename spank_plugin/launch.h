#pragma once

#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/settings/settings.h"
#include "spank_plugin/options.h"

namespace rollcall::spank {

/// All layers of the launch settings for one step: site profile, the user's file, ROLLCALL_* in `user`, --ddp=. Files
/// are opened with the credentials of the moment: call it as the job's user. Errors: those of the layers.
[[nodiscard]] Result<settings::Settings> load_settings(const DdpOption& option,
                                                       const std::optional<std::string>& site_file,
                                                       const Environment& user);

/// The srun side: would the settings load? A mistake is refused here, once, before anything starts. A site profile that
/// does not exist on the submitting host is no error yet: the nodes have the last word.
[[nodiscard]] Result<void> check_before_launch(const DdpOption& option, const std::optional<std::string>& site_file);

}  // namespace rollcall::spank

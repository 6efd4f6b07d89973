#pragma once

#include <string_view>

namespace rollcall::hooks {

/// Runs `rollcall spank-hook VERSION`, the helper process of the SPANK plugin of that version, with the user's rights
/// (contract/hook_wire.h). Serves requests on hook::kSocket until the plugin closes it. Returns the exit code.
[[nodiscard]] int serve_plugin(std::string_view version);

}  // namespace rollcall::hooks

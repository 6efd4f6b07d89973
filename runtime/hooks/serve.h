#pragma once

#include <string_view>

namespace rollcall::hooks {

/// `rollcall spank-hook VERSION`: what the SPANK plugin of that version has done in a process of its own, with the
/// user's rights; see contract/hook_wire.h. Serves the plugin at the other end of hook::kSocket until that is gone.
/// Returns the exit code.
[[nodiscard]] int serve_plugin(std::string_view version);

}  // namespace rollcall::hooks

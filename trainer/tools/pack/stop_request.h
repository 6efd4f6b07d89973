#pragma once

namespace rollcall::pack {

/// INT (Ctrl-C) and TERM ask for an end, which comes after the file in work; what is done stays. A second INT ends the
/// process at once. Call once, before threads start.
void catch_stop_requests();

/// Any thread.
[[nodiscard]] bool stop_requested();

}  // namespace rollcall::pack

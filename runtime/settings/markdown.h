#pragma once

#include <string>
#include <string_view>

#include "runtime/settings/settings.h"

namespace rollcall::settings {

/// A section of docs/settings.md, generated from a table: a heading of level 2, below it a Markdown table a group.
/// Ends with a newline. docs/settings.md is what `rollcall --print-settings-markdown` prints, followed by the same of
/// the other programs; a test compares them.
[[nodiscard]] std::string settings_markdown(std::string_view title, Table table);

/// The settings of launching as a whole page: the heading, how settings are given and which one wins, the launch table.
[[nodiscard]] std::string launch_settings_markdown();

/// docs/environment.md, generated from contract/env_table.h: what `rollcall --print-environment-markdown` prints; a
/// test compares them.
[[nodiscard]] std::string environment_markdown();

}  // namespace rollcall::settings

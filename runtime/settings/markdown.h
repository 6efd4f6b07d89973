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

/// A text for a cell of a Markdown table: '|' would end the cell, '<' start a tag; both stay readable where the text is
/// read unrendered.
[[nodiscard]] std::string markdown_cell(std::string_view text);
/// The same in backquotes; empty for an empty text.
[[nodiscard]] std::string markdown_code(std::string_view text);

}  // namespace rollcall::settings

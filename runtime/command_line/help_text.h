#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/command_line/command_line.h"
#include "runtime/settings/settings.h"

namespace rollcall::command_line {

/// The options part of `--help`: the flags, then every setting below the heading of its group, with its default. Lines
/// have at most 100 columns.
[[nodiscard]] std::string help_text(std::span<const Flag> flags, std::span<const settings::Table> tables);

/// `text` broken at blanks into lines of at most `width` columns, all but the first indented by `indent` blanks; a word
/// that is longer keeps a line of its own.
[[nodiscard]] std::string wrap(std::string_view text, std::size_t width, std::size_t indent);

}  // namespace rollcall::command_line

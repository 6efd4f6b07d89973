#pragma once

#include <string>
#include <vector>

namespace rollcall::command_line {

/// Rows of a table for people, all with as many cells: every column as wide as its longest cell, two blanks between
/// columns, no blanks at the ends of lines. Cells are ASCII, or their columns come out askew.
[[nodiscard]] std::string text_table(const std::vector<std::vector<std::string>>& rows);

}  // namespace rollcall::command_line

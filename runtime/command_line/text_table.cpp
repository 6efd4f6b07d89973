#include "runtime/command_line/text_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace rollcall::command_line {

std::string text_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> width;
  for (const std::vector<std::string>& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) {
      width[column] = std::max(width[column], row[column].size());
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    for (std::size_t column = 0; column < row.size(); ++column) {
      fmt::format_to(std::back_inserter(text), "{:<{}}  ", row[column], width[column]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  return text;
}

}  // namespace rollcall::command_line

#include "runtime/command_line/help_text.h"

#include <fmt/format.h>

#include <iterator>

#include "runtime/base/text.h"

namespace rollcall::command_line {
namespace {

constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kHelpColumn = 34;

std::string entry(const std::string& option, const std::string& help) {
  const bool fits = option.size() + 4 <= kHelpColumn;
  const std::string gap =
      fits ? std::string(kHelpColumn - option.size() - 2, ' ') : "\n" + std::string(kHelpColumn, ' ');
  return "  " + option + gap + wrap(help, kLineWidth - kHelpColumn, kHelpColumn) + "\n";
}

std::string flag_entry(const Flag& flag) {
  const std::string letter = flag.letter == 0 ? "" : fmt::format("-{}, ", flag.letter);
  return entry(fmt::format("{}--{}", letter, flag.name), std::string(flag.help));
}

std::string setting_entry(const settings::Setting& setting) {
  const std::string name = settings::option_name(setting.name);
  const bool is_switch = setting.kind == settings::Kind::Switch;
  const std::string option =
      fmt::format("{}{}={}{}", name, is_switch ? "[" : "", setting.argument, is_switch ? "]" : "");
  std::string help(setting.help);
  if (setting.kind == settings::Kind::Choice && setting.argument != setting.choices) {
    help += fmt::format(": {}", setting.choices);
  }
  if (!setting.default_text.empty()) {
    help += fmt::format(" [{}]", setting.default_text);
  }
  return entry(option, help);
}

}  // namespace

std::string wrap(std::string_view text, std::size_t width, std::size_t indent) {
  std::string lines;
  std::size_t column = 0;
  for (const std::string& word : split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      lines += "\n" + std::string(indent, ' ');
      column = 0;
    }
    if (column > 0) {
      lines += ' ';
      ++column;
    }
    lines += word;
    column += word.size();
  }
  return lines;
}

std::string help_text(std::span<const Flag> flags, std::span<const settings::Table> tables) {
  std::string text = flags.empty() ? "" : "Options:\n";
  for (const Flag& flag : flags) {
    text += flag_entry(flag);
  }
  for (const settings::Table table : tables) {
    std::string_view group;
    for (const settings::Setting& setting : table) {
      if (setting.group != group) {
        group = setting.group;
        fmt::format_to(std::back_inserter(text), "{}{} [default]:\n", text.empty() ? "" : "\n", group);
      }
      text += setting_entry(setting);
    }
  }
  return text;
}

}  // namespace rollcall::command_line

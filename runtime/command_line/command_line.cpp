#include "runtime/command_line/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <iterator>

#include "runtime/base/text.h"

namespace rollcall::command_line {
namespace {

namespace po = boost::program_options;
using settings::Kind;
using settings::option_name;
using settings::Setting;
using settings::Settings;

struct Target {
  Settings* settings = nullptr;
  const Setting* setting = nullptr;
};

/// The setting of option "port-range" (without dashes).
Target find_target(std::span<Settings* const> targets, std::string_view option) {
  for (Settings* const settings : targets) {
    for (const Setting& setting : settings->table()) {
      if (option_name(setting.name).substr(2) == option) {
        return {settings, &setting};
      }
    }
  }
  return {};
}

po::options_description describe(std::span<Settings* const> targets, std::span<const Flag> flags) {
  po::options_description description;
  for (const Flag& flag : flags) {
    std::string names(flag.name);
    if (flag.letter != 0) {
      names += std::string(",") + flag.letter;
    }
    description.add_options()(names.c_str(), "");
  }
  for (const Settings* const settings : targets) {
    for (const Setting& setting : settings->table()) {
      const std::string name = option_name(setting.name).substr(2);
      if (description.find_nothrow(name, false) != nullptr) {
        continue;
      }
      description.add_options()(name.c_str(), po::value<std::string>());
    }
  }
  return description;
}

/// What Boost's own styles do not do: "--venv=" has an empty value, which is how a user switches off what the site
/// switched on; and a switch alone is true and leaves the next argument alone (Boost's implicit_value takes it).
std::vector<po::option> own_style(std::span<Settings* const> targets, std::vector<std::string>& arguments) {
  const std::string& argument = arguments.front();
  if (!argument.starts_with("--")) {
    return {};
  }
  const std::size_t equals = argument.find('=');
  const Setting* const setting = find_target(targets, argument.substr(2, equals - 2)).setting;
  const bool empty_value = equals == argument.size() - 1;
  const bool switch_alone = equals == std::string::npos && setting != nullptr && setting->kind == Kind::Switch;
  if (!empty_value && !switch_alone) {
    return {};
  }
  po::option option;
  option.string_key = argument.substr(2, equals - 2);
  option.value.emplace_back(switch_alone ? "true" : "");
  option.original_tokens.push_back(argument);
  arguments.erase(arguments.begin());
  return {option};
}

Error unknown_option(std::span<Settings* const> targets, std::span<const Flag> flags, const std::string& argument) {
  const std::string option = argument.substr(0, argument.find('='));
  std::vector<std::string> known;
  for (const Settings* const settings : targets) {
    for (const Setting& setting : settings->table()) {
      known.push_back(option_name(setting.name));
    }
  }
  for (const Flag& flag : flags) {
    known.push_back("--" + std::string(flag.name));
  }
  return fail(option, "", "unknown option", nearest(option, known).value_or("--help"));
}

/// Where the other program's command line starts: after "--", or at the first positional argument.
std::size_t end_of_options(std::span<Settings* const> targets, std::span<const std::string> arguments, StopAt stop) {
  std::size_t i = 0;
  for (; i < arguments.size() && arguments[i] != "--"; ++i) {
    const std::string& argument = arguments[i];
    if (stop == StopAt::Positional && !argument.starts_with('-')) {
      return i;
    }
    const bool long_option = argument.starts_with("--") && argument.find('=') == std::string::npos;
    const Setting* const setting = long_option ? find_target(targets, argument.substr(2)).setting : nullptr;
    const bool value_follows = setting != nullptr && setting->kind != Kind::Switch;
    if (stop == StopAt::Positional && value_follows && i + 1 < arguments.size()) {
      ++i;
    }
  }
  return i;
}

Error lacks_value(const Setting& setting) {
  const std::string option = option_name(setting.name);
  return fail(option, "", "lacks its value", option + "=" + std::string(setting.argument));
}

Result<void> apply_option(std::span<Settings* const> targets, std::span<const Flag> flags, const po::option& option,
                          ParsedCommandLine& parsed) {
  if (option.unregistered) {
    return unknown_option(targets, flags, option.original_tokens.front());
  }
  if (option.string_key.empty()) {
    parsed.positional.insert(parsed.positional.end(), option.value.begin(), option.value.end());
    return {};
  }
  const Target target = find_target(targets, option.string_key);
  if (target.setting == nullptr) {
    parsed.flags.push_back(option.string_key.substr(option.string_key.find_first_not_of('-')));
    return {};
  }
  const std::string& value = option.value.front();
  const bool next_argument = option.original_tokens.size() > 1 && value.starts_with("--");
  if (next_argument && find_target(targets, value.substr(2, value.find('=') - 2)).setting != nullptr) {
    return lacks_value(*target.setting);
  }
  return target.settings->set(target.setting->name, value, option_name(target.setting->name));
}

Error syntax_error(std::span<Settings* const> targets, const po::error_with_option_name& error) {
  const std::string option = error.get_option_name();
  const Setting* const setting = option.starts_with("--") ? find_target(targets, option.substr(2)).setting : nullptr;
  if (setting == nullptr) {
    return fail(option, "", "takes no value", option + " alone");
  }
  return lacks_value(*setting);
}

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
  if (setting.kind == settings::Kind::Choice && setting.argument != setting.words()) {
    help += fmt::format(": {}", setting.words());
  }
  if (!setting.default_text.empty()) {
    help += fmt::format(" [{}]", setting.default_text);
  }
  return entry(option, help);
}

}  // namespace

bool ParsedCommandLine::has(std::string_view flag) const { return std::ranges::find(flags, flag) != flags.end(); }

Result<ParsedCommandLine> parse_command_line(std::span<Settings* const> targets, std::span<const Flag> flags,
                                             std::span<const std::string> arguments, StopAt stop) {
  using namespace po::command_line_style;
  constexpr int style = allow_long | long_allow_adjacent | long_allow_next | allow_short | allow_dash_for_short |
                        short_allow_next | allow_sticky;
  const auto end = arguments.begin() + static_cast<std::ptrdiff_t>(end_of_options(targets, arguments, stop));
  ParsedCommandLine parsed;
  parsed.program.assign(end != arguments.end() && *end == "--" ? end + 1 : end, arguments.end());
  const po::options_description description = describe(targets, flags);
  try {
    const po::parsed_options options =
        po::command_line_parser(std::vector<std::string>(arguments.begin(), end))
            .options(description)
            .style(style)
            .extra_style_parser([&](std::vector<std::string>& rest) { return own_style(targets, rest); })
            .allow_unregistered()
            .run();
    for (const po::option& option : options.options) {
      RETURN_IF_ERROR(apply_option(targets, flags, option, parsed));
    }
  } catch (const po::error_with_option_name& error) {
    return syntax_error(targets, error);
  } catch (const po::error& error) {
    return fail("command line", "", error.what(), "--help");
  }
  return parsed;
}

bool speaks_utf8(const Environment& environment) {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (std::optional<std::string> locale = environment.get_non_empty(name)) {
      std::ranges::transform(*locale, locale->begin(), [](unsigned char c) { return static_cast<char>(tolower(c)); });
      return locale->ends_with("utf-8") || locale->ends_with("utf8");
    }
  }
  return false;
}

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

std::string text_table(std::vector<std::vector<std::string>> rows) {
  std::vector<std::size_t> width;
  for (std::vector<std::string>& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) {
      row[column] = printable(std::move(row[column]));
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

#include "runtime/command_line/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

#include "runtime/base/text.h"

namespace rollcall::command_line {
namespace {

using settings::Kind;
using settings::option_name;
using settings::Setting;
using settings::Settings;

/// An argument that begins with a dash.
struct GivenOption {
  std::string name;                  ///< with its dashes: "--port-range", "-h"
  std::optional<std::string> value;  ///< what follows its "="; "--venv=" has an empty one
};

GivenOption split_option(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    return {argument, std::nullopt};
  }
  return {argument.substr(0, equals), argument.substr(equals + 1)};
}

struct Target {
  Settings* settings = nullptr;
  const Setting* setting = nullptr;
};

Target find_target(std::span<Settings* const> targets, std::string_view option) {
  for (Settings* const settings : targets) {
    for (const Setting& setting : settings->table()) {
      if (option_name(setting.name) == option) {
        return {settings, &setting};
      }
    }
  }
  return {};
}

const Flag* find_flag(std::span<const Flag> flags, std::string_view option) {
  const auto found = std::ranges::find_if(flags, [&](const Flag& flag) {
    return option == fmt::format("--{}", flag.name) || (flag.letter != 0 && option == fmt::format("-{}", flag.letter));
  });
  return found == flags.end() ? nullptr : &*found;
}

Error unknown_option(std::span<Settings* const> targets, std::span<const Flag> flags, const std::string& option) {
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

}  // namespace

bool ParsedCommandLine::has(std::string_view flag) const { return std::ranges::find(flags, flag) != flags.end(); }

Result<ParsedCommandLine> parse_command_line(std::span<Settings* const> targets, std::span<const Flag> flags,
                                             std::span<const std::string> arguments, StopAt stop) {
  ParsedCommandLine parsed;
  for (auto argument = arguments.begin(); argument != arguments.end(); ++argument) {
    const bool is_positional = !argument->starts_with('-') || *argument == "-";
    if (*argument == "--" || (is_positional && stop == StopAt::Positional)) {
      parsed.program.assign(is_positional ? argument : argument + 1, arguments.end());
      break;
    }
    if (is_positional) {
      parsed.positional.push_back(*argument);
      continue;
    }
    GivenOption option = split_option(*argument);
    if (const Flag* const flag = find_flag(flags, option.name)) {
      if (option.value && flag->name == "help") {
        parsed.help_topic = *option.value;
      } else if (option.value) {
        return fail(option.name, "", "takes no value", option.name + " alone");
      }
      parsed.flags.emplace_back(flag->name);
      continue;
    }
    const auto [settings, setting] = find_target(targets, option.name);
    if (setting == nullptr) {
      return unknown_option(targets, flags, option.name);
    }
    if (!option.value && setting->kind == Kind::Switch) {
      option.value = "true";  // a switch alone leaves the next argument alone
    } else if (!option.value) {
      if (argument + 1 == arguments.end() || argument[1].starts_with("--")) {
        return fail(option.name, "", "lacks its value", fmt::format("{}={}", option.name, setting->argument));
      }
      option.value = *++argument;
    }
    RETURN_IF_ERROR(settings->set(setting->name, *option.value, option.name));
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

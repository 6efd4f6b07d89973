#include "runtime/command_line/help.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "runtime/base/text.h"
#include "runtime/settings/launch_settings.h"

namespace rollcall::command_line {
namespace {

using settings::Setting;
using settings::Table;

constexpr std::string_view kAll = "all";
constexpr std::string_view kRoff = "roff";
constexpr std::string_view kCompletion = "completion";
constexpr std::size_t kLineWidth = 100;
constexpr std::size_t kHelpColumn = 34;

/// Returns the word for a group after --help=: "nodes-and-workers" for "Nodes and workers".
std::string topic_of(std::string_view group) {
  std::string topic(group);
  std::ranges::transform(topic, topic.begin(),
                         [](unsigned char c) { return c == ' ' ? '-' : static_cast<char>(std::tolower(c)); });
  return topic;
}

std::vector<std::string> topics_of(std::span<const Table> tables) {
  std::vector<std::string> topics;
  for (const Table table : tables) {
    for (const Setting& setting : table) {
      const std::string topic = topic_of(setting.group);
      if (std::ranges::find(topics, topic) == topics.end()) {
        topics.push_back(topic);
      }
    }
  }
  return topics;
}

/// Returns the last part of a command's name: "env" of "rollcall env".
std::string_view last_word(std::string_view name) { return name.substr(name.rfind(' ') + 1); }

std::vector<std::string> topics_of(const HelpPage& page) {
  std::vector<std::string> topics = topics_of(page.tables);
  for (const HelpPage& command : page.commands) {
    topics.emplace_back(last_word(command.name));
  }
  return topics;
}

bool is_common(const Setting& setting) { return setting.is_common; }
bool is_any(const Setting& /*setting*/) { return true; }

bool marks_common(const HelpPage& page) {
  return std::ranges::any_of(page.tables, [](Table table) { return std::ranges::any_of(table, is_common); });
}

/// The parts of an option that --help and a manual page format differently.
struct Option {
  std::string names;     ///< "-h, --help", "--data"
  std::string argument;  ///< "=PATH|fake", "[=on|off]"; empty: it takes no value
  std::string help;
  std::string_view default_text{};
};

Option option_of(const Flag& flag, const HelpPage& page) {
  const std::string letter = flag.letter == 0 ? "" : fmt::format("-{}, ", flag.letter);
  const std::vector<std::string> topics = topics_of(page);
  const bool has_topics = flag.name == kHelp.name && (marks_common(page) || !page.commands.empty());
  return {.names = fmt::format("{}--{}", letter, flag.name),
          .argument = has_topics ? fmt::format("[={}|{}]", kAll, fmt::join(topics, "|")) : "",
          .help = flag.name == kHelp.name && !has_topics ? "Show this help" : std::string(flag.help)};
}

Option option_of(const Setting& setting) {
  const bool is_switch = setting.kind == settings::Kind::Switch;
  const std::string argument = setting.argument.empty() ? "" : fmt::format("={}", setting.argument);
  Option option{.names = settings::option_name(setting.name),
                .argument = is_switch && !argument.empty() ? fmt::format("[{}]", argument) : argument,
                .help = std::string(setting.help),
                .default_text = argument.empty() ? "" : setting.default_text};
  if (is_switch && !argument.empty()) {
    option.default_text = setting.default_text == "true" ? "on" : "off";
  }
  if (setting.kind == settings::Kind::Choice && setting.argument != setting.words()) {
    const bool fits = setting.words().size() <= kLineWidth - kHelpColumn;
    const std::string words =
        fits ? std::string(setting.words()) : fmt::format("{}", fmt::join(split(setting.words(), '|'), ", "));
    option.help.insert(std::min(option.help.find(". "), option.help.size()), ": " + words);
  }
  return option;
}

std::string entry(const Option& option) {
  const std::string names = option.names + option.argument;
  const std::string gap = names.size() + 4 <= kHelpColumn ? std::string(kHelpColumn - names.size() - 2, ' ')
                                                          : "\n" + std::string(kHelpColumn, ' ');
  const std::string help =
      option.default_text.empty() ? option.help : fmt::format("{} [{}]", option.help, option.default_text);
  return "  " + names + gap + wrap(help, kLineWidth - kHelpColumn, kHelpColumn) + "\n";
}

std::string flags_text(const HelpPage& page) {
  std::string text;
  for (const Flag& flag : page.flags) {
    text += flag.help.empty() ? "" : entry(option_of(flag, page));
  }
  return text;
}

/// Returns the entries of the settings for which `shows` returns true, below the headings of their groups.
template <typename Shows>
std::string settings_text(std::span<const Table> tables, const Shows& shows, bool first_sentences = false) {
  std::string text;
  for (const Table table : tables) {
    std::string_view group;
    for (const Setting& setting : table) {
      if (!shows(setting)) {
        continue;
      }
      if (setting.group != group) {
        group = setting.group;
        text += fmt::format("{}{} (default in brackets):\n", text.empty() ? "" : "\n", group);
      }
      Setting shown = setting;
      shown.help = first_sentences ? shown.help.substr(0, shown.help.find(". ")) : shown.help;
      text += entry(option_of(shown));
    }
  }
  return text;
}

std::string options_text(const HelpPage& page, bool all) {
  const bool brief = !all && marks_common(page);
  const std::string flags = flags_text(page);
  const std::string settings = brief ? settings_text(page.tables, is_common, true) : settings_text(page.tables, is_any);
  return fmt::format("{}{}{}{}", flags.empty() ? "" : "Options:\n", flags,
                     flags.empty() || settings.empty() ? "" : "\n", settings);
}

std::string page_text(const HelpPage& page, bool all) {
  std::string text = page.text;
  if (const std::string options = options_text(page, all); !options.empty()) {
    text += "\n" + options;
  }
  for (const HelpPage& command : all ? page.commands : std::vector<HelpPage>()) {
    text += fmt::format("\n{}\n{}\n", command.name, options_text(command, true));
  }
  if (page.takes_launch_settings) {
    text += "\nLaunch settings, such as --host-template, are options as well: see rollcall help settings.\n";
  }
  return text.append(page.closing);
}

/// Escapes a text so that troff shows it unchanged.
std::string roff_text(std::string_view text) {
  std::string escaped = text.starts_with('.') || text.starts_with('\'') ? "\\&" : "";
  for (const char c : text) {
    escaped += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  }
  return escaped;
}

std::string roff_entry(const Option& option) {
  const std::string default_text =
      option.default_text.empty() ? "" : fmt::format(" Default: {}.", roff_text(option.default_text));
  return fmt::format(".TP\n\\fB{}\\fR{}\n{}.{}\n", roff_text(option.names), roff_text(option.argument),
                     roff_text(option.help), default_text);
}

std::string roff_heading(std::string_view text) { return fmt::format(".SS \"{}\"\n", roff_text(text)); }

std::string roff_options(const HelpPage& page) {
  std::string text;
  for (const Flag& flag : page.flags) {
    text += flag.help.empty() ? "" : roff_entry(option_of(flag, page));
  }
  for (const Table table : page.tables) {
    std::string_view group;
    for (const Setting& setting : table) {
      if (setting.group != group) {
        group = setting.group;
        text += roff_heading(group);
      }
      text += roff_entry(option_of(setting));
    }
  }
  for (const HelpPage& command : page.commands) {
    text += roff_heading(command.name) + roff_options(command);
  }
  return text;
}

/// Returns the values of an option that are fixed, separated by blanks, with "/" for names of files. `argument` is
/// "=DIR|none", "[=on|off]" or empty.
std::string values_of(std::string_view argument, std::string_view words) {
  argument.remove_prefix(std::min(argument.find('=') + 1, argument.size()));
  argument.remove_suffix(argument.ends_with(']') ? 1 : 0);
  std::vector<std::string> values;
  for (const std::string& part : split(fmt::format("{}|{}", argument, words), '|')) {
    const bool is_file = part == "FILE" || part == "DIR" || part == "PATH";
    const bool is_fixed = std::ranges::none_of(part, [](char c) { return std::isupper(c) != 0 || c == ','; });
    const std::string value = is_file ? "/" : part;
    if ((is_file || (is_fixed && !part.empty())) && std::ranges::find(values, value) == values.end()) {
      values.push_back(value);
    }
  }
  return fmt::format("{}", fmt::join(values, " "));
}

/// Returns the rows of a page for completion: PAGE|WORD|VALUES|CLAUSE. The name of an option that needs a value ends in
/// "=". "+OTHER" instead of a word: the rows of the page OTHER, which come later, count as well.
std::string completion_rows(const HelpPage& page) {
  std::string rows;
  const auto add = [&rows](std::string_view name, std::string_view word, std::string_view values,
                           std::string_view clause) {
    clause = clause.substr(0, clause.find(". "));
    rows += fmt::format("{}|{}|{}|{}\n", name, word, values, clause);
  };
  if (!page.commands.empty()) {
    add(page.name + " help", "+" + page.name, "", "");
  }
  for (const Word& word : page.words) {
    add(page.name, word.name, "", word.summary);
  }
  for (const Flag& flag : page.flags) {
    const Option option = option_of(flag, page);
    if (!flag.help.empty()) {
      add(page.name, fmt::format("--{}", flag.name), values_of(option.argument, ""), option.help);
    }
  }
  for (const Table table : page.tables) {
    for (const Setting& setting : table) {
      const std::string argument = option_of(setting).argument;
      add(page.name, settings::option_name(setting.name) + (argument.starts_with('=') ? "=" : ""),
          values_of(argument, setting.words()), setting.help);
    }
  }
  if (page.takes_launch_settings) {
    add(page.name, "+Launch settings", "", "");
  }
  for (const HelpPage& command : page.commands) {
    if (!command.name.starts_with(page.name)) {  // `rollcall help settings`
      add(page.name + " help", last_word(command.name), "", command.name);
    }
    rows += completion_rows(command);
  }
  return rows;
}

Error unknown_topic(const HelpPage& page, std::string_view topic) {
  const std::array<Table, 1> launch{settings::launch_table()};
  const std::vector<std::string> of_launch = topics_of(launch);
  if (page.takes_launch_settings && std::ranges::find(of_launch, topic) != of_launch.end()) {
    return fail("--help", std::string(topic), "is a group of launch settings",
                fmt::format("rollcall help settings {}", topic));
  }
  const std::vector<std::string> topics = topics_of(page);
  return fail(
      "--help", std::string(topic), "is not a group of options",
      topics.empty() ? "--help" : fmt::format("--help={} or --help=GROUP (groups: {})", kAll, fmt::join(topics, ", ")));
}

}  // namespace

Result<std::string> help_text(const HelpPage& page, std::string_view topic) {
  if (topic.empty() || topic == kAll) {
    return page_text(page, topic == kAll);
  }
  if (topic == kRoff) {
    return roff_options(page);
  }
  if (topic == kCompletion) {
    return completion_rows(page);
  }
  for (const HelpPage& command : page.commands) {
    if (last_word(command.name) == topic) {
      return page_text(command, false);
    }
  }
  const std::string text =
      settings_text(page.tables, [&](const Setting& setting) { return topic_of(setting.group) == topic; });
  return text.empty() ? Result<std::string>(unknown_topic(page, topic)) : text;
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

}  // namespace rollcall::command_line

#include "runtime/settings/values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall::settings {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

/// Writes a number as people do: 1024 and 0.5, not "1024.0" or "1e+03".
std::string plain_number(double number) {
  const bool whole = std::abs(number) < 1e15 && number == std::trunc(number);
  return whole ? fmt::format("{}", static_cast<std::int64_t>(number)) : fmt::format("{}", number);
}

std::string range_phrase(const Setting& setting) {
  const bool no_minimum = setting.minimum <= -1e300;
  const bool no_maximum = setting.maximum >= 1e15;
  if (no_minimum && no_maximum) {
    return "";
  }
  if (no_maximum) {
    return fmt::format(" of at least {}", plain_number(setting.minimum));
  }
  if (no_minimum) {
    return fmt::format(" of at most {}", plain_number(setting.maximum));
  }
  return fmt::format(" from {} to {}", plain_number(setting.minimum), plain_number(setting.maximum));
}

std::string base_phrase(const Setting& setting) {
  switch (setting.kind) {
    case Kind::Text:
      return "a text";
    case Kind::Integer:
      return "a whole number" + range_phrase(setting);
    case Kind::Number:
      return "a number" + range_phrase(setting);
    case Kind::Switch:
      return "true or false (also on|off, yes|no, 1|0)";
    case Kind::Choice:
      return fmt::format("{}{}", fmt::join(split(setting.words(), '|'), ", "), setting.may_be_file ? ", a path" : "");
    case Kind::Path:
      return "a path";
    case Kind::List:
      return "words separated by commas";
    case Kind::PortRange:
      return "FIRST-LAST with ports from 1 to 65535";
  }
  return "";
}

/// Returns what is wrong with the text; empty if it is right.
std::string objection_to_number(const Setting& setting, std::string_view text) {
  const bool integer = setting.kind == Kind::Integer;
  if (integer && !parse_integer<std::int64_t>(text)) {
    return "is not a whole number";
  }
  const std::optional<double> number = parse_number(text);
  if (!number) {
    return "is not a number";
  }
  return *number < setting.minimum || *number > setting.maximum ? "is out of range" : "";
}

std::optional<std::string> normal_switch(std::string_view text) {
  for (const std::string_view yes : {"true", "on", "yes", "1"}) {
    if (text == yes) {
      return "true";
    }
  }
  for (const std::string_view no : {"false", "off", "no", "0"}) {
    if (text == no) {
      return "false";
    }
  }
  return std::nullopt;
}

Result<std::string> normal_list(const Setting& setting, std::string_view text, const std::string& subject) {
  std::vector<std::string> items = split(text, ',');
  for (std::string& item : items) {
    item = std::string(trim(item));
  }
  const bool hole = std::ranges::any_of(items, [](const std::string& item) { return item.empty(); });
  if (items.empty() || hole) {
    return fail(subject, std::string(text), items.empty() ? "is empty" : "has an empty item",
                "giving " + accepted_values(setting));
  }
  return fmt::format("{}", fmt::join(items, ","));
}

Error bad_choice(const Setting& setting, std::string_view text, const std::string& subject) {
  const std::vector<std::string> choices = split(setting.words(), '|');
  const std::optional<std::string> meant = nearest(text, choices);
  return fail(subject, std::string(text), fmt::format("is not one of {}", fmt::join(choices, ", ")),
              fmt::format("{}={}", subject, meant.value_or(choices.front())));
}

constexpr std::array<std::string_view, 6> kVariables{"SCRATCH", "HOME",         "USER",
                                                     "TMPDIR",  "SLURM_JOB_ID", "XDG_RUNTIME_DIR"};

bool names_a_folder(std::string_view variable) { return variable != "USER" && variable != "SLURM_JOB_ID"; }

std::string all_variables() { return fmt::format("${{{}}}", fmt::join(kVariables, "}, ${")); }

std::string advice(std::string_view wrong_name) {
  const std::vector<std::string> names(kVariables.begin(), kVariables.end());
  const auto meant = nearest(wrong_name, names);
  return meant ? fmt::format("writing ${{{}}}", *meant)
               : "using one of " + all_variables() + ", or writing the path in full";
}

/// Copies `path` with each variable replaced by what `value_of` returns for its name.
Result<std::string> replace_variables(std::string_view path, const std::string& setting,
                                      const std::function<Result<std::string>(std::string_view)>& value_of) {
  std::string expanded;
  for (std::size_t dollar = path.find('$'); dollar != std::string_view::npos; dollar = path.find('$')) {
    expanded += path.substr(0, dollar);
    const std::string_view rest = path.substr(dollar + 1);
    const std::size_t close = rest.find('}');
    if (!rest.starts_with('{') || close == std::string_view::npos) {
      const std::size_t end = std::min(rest.find('/'), rest.size());
      return fail(setting, std::string(path), "has a '$' that does not begin a ${NAME}", advice(rest.substr(0, end)));
    }
    const std::string_view name = rest.substr(1, close - 1);
    if (std::ranges::find(kVariables, name) == kVariables.end()) {
      return fail(setting, std::string(path), fmt::format("${{{}}} is not expanded here", name), advice(name));
    }
    ASSIGN_OR_RETURN(const std::string value, value_of(name));
    expanded += value;
    path = rest.substr(close + 1);
  }
  return expanded.append(path);
}

}  // namespace

std::string accepted_values(const Setting& setting) {
  std::string phrase = base_phrase(setting);
  if (setting.kind != Kind::Choice && !setting.words().empty()) {
    phrase += fmt::format(", or {}", fmt::join(split(setting.words(), '|'), ", "));
  }
  return phrase;
}

Result<std::string> normal_form(const Setting& setting, std::string_view text, const std::string& subject) {
  const auto refuse = [&](const std::string& reason) {
    return fail(subject, std::string(text), reason, "giving " + accepted_values(setting));
  };
  if (std::ranges::any_of(text, is_control)) {
    return refuse("holds a control character");
  }
  const std::vector<std::string> words = split(setting.words(), '|');
  if (std::ranges::find(words, text) != words.end()) {
    return std::string(text);
  }
  switch (setting.kind) {
    case Kind::Text:
      return std::string(text);
    case Kind::Integer:
    case Kind::Number: {
      const std::string objection = objection_to_number(setting, text);
      return objection.empty() ? Result(std::string(text)) : refuse(objection);
    }
    case Kind::Switch: {
      const std::optional<std::string> value = normal_switch(text);
      return value ? Result(*value) : refuse("is neither true nor false");
    }
    case Kind::Choice:
      if (!setting.may_be_file || text.find_first_of("/.") == std::string_view::npos) {
        return bad_choice(setting, text, subject);
      }
      [[fallthrough]];
    case Kind::Path: {
      const Result<void> checked = check_path_variables(text, subject);
      return checked ? Result(std::string(text)) : checked.error();
    }
    case Kind::List:
      return normal_list(setting, text, subject);
    case Kind::PortRange:
      return parse_port_range(text) ? Result(std::string(text)) : refuse("is not a range of ports");
  }
  return std::string(text);
}

std::optional<double> parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc{} && end == text.data() + text.size() && std::isfinite(number);
  return whole ? std::optional(number) : std::nullopt;
}

std::optional<std::pair<std::uint16_t, std::uint16_t>> parse_port_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto first = parse_integer<std::uint16_t>(text.substr(0, dash));
  const auto last = parse_integer<std::uint16_t>(text.substr(dash + 1));
  if (!first || !last || *first == 0 || *last < *first) {
    return std::nullopt;
  }
  return std::pair(*first, *last);
}

Result<std::string> expand_path(std::string_view path, const Environment& environment, const std::string& setting) {
  return replace_variables(path, setting, [&](std::string_view name) -> Result<std::string> {
    const std::optional<std::string> value = environment.get_non_empty(name);
    if (!value) {
      return fail(setting, std::string(path), fmt::format("{} is not set", name),
                  fmt::format("setting {} or writing the path in full", name));
    }
    if (names_a_folder(name) && !value->starts_with('/')) {
      return fail(setting, std::string(path), fmt::format("{} is {}, which is not an absolute path", name, *value),
                  value->starts_with("~/") ? fmt::format("{}=$HOME{}, without quotes", name, value->substr(1))
                                           : fmt::format("setting {} to an absolute path", name));
    }
    return *value;
  });
}

Result<void> check_path_variables(std::string_view path, const std::string& setting) {
  if (path.starts_with('~')) {
    return fail(setting, std::string(path), "'~' is not expanded here",
                "writing ${HOME}" + std::string(path.substr(1)));
  }
  const Result<std::string> walked =
      replace_variables(path, setting, [](std::string_view) -> Result<std::string> { return std::string(); });
  return walked ? Result<void>() : walked.error();
}

}  // namespace rollcall::settings

#include "runtime/job/node_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "runtime/base/text.h"

namespace rollcall::job {
namespace {

Error refuse(std::string_view text, const std::string& reason) {
  constexpr std::size_t kShown = 80;
  return fail("node list", std::string(text.substr(0, kShown)), reason, "comparing it with scontrol show hostnames",
              ErrorKind::Mismatch);
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_name_character(unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; }

/// The ends of "007" or "7-12". Numbers are padded to the width of `first`.
struct Range {
  std::uint64_t first = 0;
  std::uint64_t last = 0;
  std::size_t width = 0;
};

std::optional<Range> parse_range(std::string_view text) {
  const std::size_t dash = text.find('-');
  const std::string_view first = text.substr(0, dash);
  const std::string_view last = dash == std::string_view::npos ? first : text.substr(dash + 1);
  if (!is_digits(first) || !is_digits(last)) {
    return std::nullopt;
  }
  const auto low = parse_integer<std::uint64_t>(first);
  const auto high = parse_integer<std::uint64_t>(last);
  if (!low || !high || *high < *low) {
    return std::nullopt;
  }
  return Range{*low, *high, first.size()};
}

Error refuse_long_name(std::string_view whole) {
  return refuse(whole, fmt::format("has a name of more than {} characters", kLongestNodeName));
}

/// Expands the content of a bracket: "810,812-815".
Result<std::vector<std::string>> expand_bracket(std::string_view inside, std::string_view whole) {
  std::vector<std::string> numbers;
  for (const std::string& part : split(inside, ',')) {
    const std::optional<Range> range = parse_range(part);
    if (!range) {
      return refuse(whole, fmt::format("\"{}\" is not a number or an ascending range", part));
    }
    const std::uint64_t beyond_first = range->last - range->first;
    if (beyond_first >= kMaxNodes - numbers.size()) {
      return refuse(whole, fmt::format("has more than {} names", kMaxNodes));
    }
    if (range->width > kLongestNodeName) {
      return refuse_long_name(whole);
    }
    // Count from 0, because a range may end at the largest integer.
    for (std::uint64_t i = 0; i <= beyond_first; ++i) {
      numbers.push_back(fmt::format("{:0{}}", range->first + i, range->width));
    }
  }
  if (numbers.empty()) {
    return refuse(whole, "has an empty bracket");
  }
  return numbers;
}

Result<std::vector<std::string>> append_each(const std::vector<std::string>& stems,
                                             const std::vector<std::string>& endings, std::string_view whole) {
  if (stems.size() * endings.size() > kMaxNodes) {
    return refuse(whole, fmt::format("has more than {} names", kMaxNodes));
  }
  std::vector<std::string> names;
  names.reserve(stems.size() * endings.size());
  for (const std::string& stem : stems) {
    for (const std::string& ending : endings) {
      if (stem.size() + ending.size() > kLongestNodeName) {
        return refuse_long_name(whole);
      }
      names.push_back(stem + ending);
    }
  }
  return names;
}

/// Expands one entry between top-level commas, which consists of literal texts and brackets.
Result<std::vector<std::string>> expand_entry(std::string_view entry, std::string_view whole) {
  if (entry.empty()) {
    return refuse(whole, "has an empty name");
  }
  std::vector<std::string> names{""};
  while (!entry.empty()) {
    const bool bracket = entry.front() == '[';
    const std::size_t end = bracket ? entry.find(']') : std::min(entry.find('['), entry.size());
    if (end == std::string_view::npos) {
      return refuse(whole, "has an unclosed bracket");
    }
    const std::string_view part = bracket ? entry.substr(1, end - 1) : entry.substr(0, end);
    if (!bracket && !std::all_of(part.begin(), part.end(), is_name_character)) {
      return refuse(whole, fmt::format("\"{}\" is not part of a node name", part));
    }
    ASSIGN_OR_RETURN(
        const std::vector<std::string> endings,
        bracket ? expand_bracket(part, whole) : Result<std::vector<std::string>>(std::vector{std::string(part)}));
    ASSIGN_OR_RETURN(std::vector<std::string> longer, append_each(names, endings, whole));
    names = std::move(longer);
    entry.remove_prefix(bracket ? end + 1 : end);
  }
  return names;
}

/// Returns the index of the first comma outside brackets, or the length of `text`.
std::size_t end_of_entry(std::string_view text) {
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    inside = text[i] == '[' || (inside && text[i] != ']');
    if (text[i] == ',' && !inside) {
      return i;
    }
  }
  return text.size();
}

struct Run {
  std::uint32_t tasks = 0;
  std::uint32_t nodes = 1;
};

/// Parses "2" or "2(x3)".
std::optional<Run> parse_run(std::string_view text) {
  const std::size_t open = text.find("(x");
  std::optional<std::uint32_t> nodes = 1;
  if (open != std::string_view::npos) {
    if (text.back() != ')') {
      return std::nullopt;
    }
    nodes = parse_integer<std::uint32_t>(text.substr(open + 2, text.size() - open - 3));
  }
  const auto tasks = parse_integer<std::uint32_t>(text.substr(0, open));
  if (!tasks || !nodes || *tasks == 0 || *nodes == 0) {
    return std::nullopt;
  }
  return Run{*tasks, *nodes};
}

}  // namespace

Result<std::vector<std::string>> expand_node_list(std::string_view text) {
  std::vector<std::string> names;
  std::string_view rest = text;
  while (true) {
    const std::size_t end = end_of_entry(rest);
    ASSIGN_OR_RETURN(std::vector<std::string> entry, expand_entry(rest.substr(0, end), text));
    if (names.size() + entry.size() > kMaxNodes) {
      return refuse(text, fmt::format("has more than {} names", kMaxNodes));
    }
    if (names.empty()) {
      names = std::move(entry);  // usually the whole list
    } else {
      names.insert(names.end(), std::make_move_iterator(entry.begin()), std::make_move_iterator(entry.end()));
    }
    if (end == rest.size()) {
      return names;
    }
    rest.remove_prefix(end + 1);
  }
}

Result<std::vector<std::uint32_t>> expand_tasks_per_node(std::string_view text) {
  std::vector<std::uint32_t> counts;
  for (const std::string& part : split(text, ',')) {
    const std::optional<Run> run = parse_run(part);
    if (!run || run->nodes > kMaxNodes - counts.size()) {
      counts.clear();
      break;
    }
    counts.insert(counts.end(), run->nodes, run->tasks);
  }
  if (counts.empty()) {
    return fail("tasks per node", std::string(text), "is not in Slurm's notation, such as 2(x3),1",
                "reporting it: Slurm sets it", ErrorKind::Mismatch);
  }
  return counts;
}

}  // namespace rollcall::job

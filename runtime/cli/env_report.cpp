#include "runtime/cli/env_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <vector>

#include "runtime/base/printable.h"
#include "runtime/command_line/text_table.h"

namespace rollcall::cli {
namespace {

/// A table stays readable beside a PATH of 2,000 characters.
std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 48;
  return text.size() <= longest ? text : text.substr(0, longest - 3) + "...";
}

}  // namespace

std::string_view action_name(resolve::Action action) {
  switch (action) {
    case resolve::Action::Set:
      return "set";
    case resolve::Action::Keep:
      return "keep";
    case resolve::Action::Unset:
      return "unset";
  }
  return "";
}

std::string env_table(const resolve::EnvPatch& patch) {
  std::vector<std::vector<std::string>> rows{{"VARIABLE", "VALUE", "ACTION", "ORIGIN", "REASON"}};
  for (const resolve::EnvChange& change : patch.changes) {
    rows.push_back({change.name, shortened(printable(change.value)), std::string(action_name(change.action)),
                    change.origin, printable(change.reason)});
  }
  return command_line::text_table(rows);
}

std::string env_exports(const resolve::EnvPatch& patch) {
  std::string lines;
  for (const resolve::EnvChange& change : patch.changes) {
    if (change.action == resolve::Action::Set) {
      lines += "export " + change.name + "=" + shell_quote(change.value) + "\n";
    } else if (change.action == resolve::Action::Unset) {
      lines += "unset " + change.name + "\n";
    }
  }
  return lines;
}

std::string facts_text(const rendezvous::ResolvedStep& step) {
  std::string text;
  for (const bootstrap::TraceEntry& entry : step.trace) {
    fmt::format_to(std::back_inserter(text), "{:<12}  {:<8}  {}\n", entry.source,
                   entry.answered ? "answered" : "declined", entry.detail);
  }
  const job::JobFacts& facts = step.facts;
  fmt::format_to(std::back_inserter(text),
                 "\nrank {} of {}, local rank {} of {}, node {} of {}\nthis host {}, head host {}, hosts {}\n",
                 facts.rank, facts.world_size, facts.local_rank, facts.local_world_size, facts.node_rank,
                 facts.num_nodes, facts.this_host.empty() ? "unknown" : facts.this_host,
                 facts.head_host.empty() ? "unknown" : facts.head_host,
                 facts.hosts.empty() ? "unknown" : fmt::format("{}", fmt::join(facts.hosts, " ")));
  return text;
}

std::string warning_lines(const resolve::EnvPatch& patch) {
  std::string lines;
  for (const std::string& warning : patch.warnings) {
    lines += "rollcall: warning: " + printable(warning) + "\n";
  }
  return lines;
}

std::string shell_quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

}  // namespace rollcall::cli

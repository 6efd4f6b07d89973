#include "runtime/cli/env_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/cli/command.h"
#include "runtime/command_line/command_line.h"
#include "runtime/job/marker.h"
#include "runtime/job/own_environment.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {
namespace {

/// Shortens a value, so that the table stays readable with a PATH of 2,000 characters.
std::string shortened(const std::string& text) {
  constexpr std::size_t longest = 48;
  return text.size() <= longest ? text : text.substr(0, longest - 3) + "...";
}

using Json = nlohmann::ordered_json;

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

/// Returns `text` in single quotes, for any POSIX shell: a quote in it becomes '\''.
std::string shell_quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return quoted + "'";
}

Json facts_json(const job::JobFacts& facts) {
  Json json{{"source", facts.source},
            {"job_id", nullptr},
            {"step_id", nullptr},
            {"rank", facts.rank},
            {"world_size", facts.world_size},
            {"local_rank", facts.local_rank},
            {"local_world_size", facts.local_world_size},
            {"node_rank", facts.node_rank},
            {"num_nodes", facts.num_nodes},
            {"hosts", facts.hosts},
            {"tasks_per_node", facts.tasks_per_node},
            {"head_host", facts.head_host},
            {"this_host", facts.this_host}};
  if (facts.job_id) {
    json["job_id"] = *facts.job_id;
  }
  if (facts.step_id) {
    json["step_id"] = *facts.step_id;
  }
  return json;
}

Environment without_values_of_rollcall(Environment environment) {
  for (const std::string& name : job::marked_values(environment)) {
    environment.unset(name);
  }
  return environment;
}

/// Puts the rank before each line, since the lines of all tasks of a step are mixed.
std::string with_rank(const std::string& text, std::uint32_t rank) {
  std::string lines;
  for (const std::string& line : split(trim(text), '\n')) {
    lines += line.empty() ? "\n" : fmt::format("{}: {}\n", rank, line);
  }
  return lines;
}

}  // namespace

void explain_kept(const resolve::EnvPatch& alone, resolve::EnvPatch& patch) {
  for (resolve::EnvChange& change : patch.changes) {
    const bool set_before = change.action == resolve::Action::Keep && change.origin == "rollcall";
    const resolve::EnvChange* const own = set_before ? alone.find(change.name) : nullptr;
    if (own == nullptr || own->action != resolve::Action::Set) {
      continue;
    }
    if (own->value == change.value) {
      change.origin = own->origin;
      change.reason = own->reason;
    } else {
      change.reason += fmt::format(", by settings unknown here; without it: {} ({})", own->value, own->reason);
    }
  }
}

Result<void> run_env(CommandContext& context) {
  const command_line::ParsedCommandLine& line = context.line;
  if (!line.positional.empty() || !line.program.empty()) {
    const std::string& extra = line.positional.empty() ? line.program.front() : line.positional.front();
    return fail("env", extra, "is one argument too many", "rollcall exec -- PROGRAM to run a program");
  }
  const Environment environment = job::with_slurmctld_facts(context.environment);
  ASSIGN_OR_RETURN(step::ResolvedStep step, step::resolve_this_step(environment, context.settings, nullptr));
  if (const Result<resolve::EnvPatch> alone =
          step::resolve_here(step.facts, context.settings, step.network, without_values_of_rollcall(environment))) {
    explain_kept(*alone, step.patch);
  }
  if (line.has("json")) {
    context.out << env_json(step, context.settings);
    return {};
  }
  if (line.has("export")) {
    context.out << env_exports(step.patch);
    context.err << warning_lines(step.patch.all_warnings());
    return {};
  }
  const std::uint32_t rank = step.facts.first_rank + step.facts.rank;
  const bool all_ranks = line.has("all-ranks");
  if (rank != 0 && !all_ranks) {
    return {};
  }
  std::string text = env_table(step.patch) + "\n" + settings::site_text(context.settings.given);
  if (line.has("verbose")) {
    text += "\n" + facts_text(step);
  }
  if (!all_ranks && step.facts.world_size > 1) {
    text += fmt::format(
        "\nrank 0 of {}: the others have ranks, and perhaps addresses, of their own; --all-ranks prints each\n",
        step.facts.world_size);
  }
  context.out << (all_ranks ? with_rank(text, rank) : text);
  context.err << (rank == 0 ? warning_lines(step.patch.all_warnings()) : "");
  return {};
}

std::string env_table(const resolve::EnvPatch& patch) {
  std::vector<std::vector<std::string>> rows{{"VARIABLE", "VALUE", "ACTION", "ORIGIN", "REASON"}};
  for (const resolve::EnvChange& change : patch.changes) {
    rows.push_back({change.name, shortened(printable(change.value)), std::string(action_name(change.action)),
                    change.origin, change.reason});
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

std::string facts_text(const step::ResolvedStep& step) {
  std::string text;
  for (const launchers::TraceEntry& entry : step.trace) {
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

std::string warning_lines(const std::vector<std::string>& warnings) {
  std::string lines;
  for (const std::string& warning : warnings) {
    lines += "rollcall: warning: " + printable(warning) + "\n";
  }
  return lines;
}

std::string env_json(const step::ResolvedStep& step, const settings::LaunchSettings& settings) {
  Json variables = Json::array();
  for (const resolve::EnvChange& change : step.patch.changes) {
    variables.push_back({{"name", change.name},
                         {"value", change.value},
                         {"action", action_name(change.action)},
                         {"origin", change.origin},
                         {"reason", change.reason}});
  }
  Json sources = Json::array();
  for (const launchers::TraceEntry& entry : step.trace) {
    sources.push_back({{"source", entry.source}, {"answered", entry.answered}, {"detail", entry.detail}});
  }
  Json site(nullptr);
  if (const auto& profile = settings.given.site()) {
    site = {{"name", profile->name}, {"file", profile->file}, {"recognised_by", profile->recognised_by}};
  }
  const Json all{{"facts", facts_json(step.facts)},
                 {"variables", variables},
                 {"warnings", step.patch.all_warnings()},
                 {"sources", sources},
                 {"site", site}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::cli

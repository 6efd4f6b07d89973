#include "runtime/cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "runtime/base/text.h"
#include "runtime/contract/backends.h"
#include "runtime/doctor/checks/check.h"
#include "runtime/doctor/examine.h"
#include "runtime/doctor/report.h"
#include "runtime/job/own_environment.h"
#include "runtime/settings/choices.h"

namespace rollcall::cli {
namespace {

using doctor::Check;
using settings::Kind;
using settings::Setting;

constexpr std::string_view kAll = "all";
constexpr std::string_view kNone = "none";

constexpr std::array kDoctorTable{
    Setting{"only", Kind::List, "all", "CHECK[,CHECK...]", "Run only these checks. --list names them", "Doctor",
            settings::kChoicesOf<kAll, doctor::kChecks>},
    Setting{"skip", Kind::List, "none", "CHECK[,CHECK...]", "Leave these checks out", "Doctor",
            settings::kChoicesOf<kNone, doctor::kChecks>},
    Setting{"collectives", Kind::List, "none", "BACKEND[,BACKEND...]",
            "Measure these backends of rollcall-train with rollcall-bench-collectives. auto: the one that it "
            "would choose",
            "Doctor", settings::kChoicesOf<kNone, kBackendNames>},
};

/// Returns the checks that `option` names, or none for its default.
Result<std::vector<std::string_view>> named(const CommandContext& context, const std::string& option) {
  std::vector<std::string_view> names;
  for (const std::string& name : context.options.list(option)) {
    if (context.options.is_default(option) || name == kDoctorTable[option == "only" ? 0 : 1].default_text) {
      return names;
    }
    const auto found = std::ranges::find(doctor::kChecks, name, &Check::name);
    if (found == doctor::kChecks.end()) {
      std::vector<std::string> known;
      known.reserve(doctor::kChecks.size());
      for (const Check& check : doctor::kChecks) {
        known.emplace_back(check.name);
      }
      return fail(
          "--" + option, name, "is not a check",
          nearest(name, known) ? fmt::format("--{}={}", option, *nearest(name, known)) : "rollcall doctor --list");
    }
    names.push_back(found->name);
  }
  return names;
}

Result<std::vector<std::string_view>> wanted_checks(const CommandContext& context) {
  const Result<std::vector<std::string_view>> only = named(context, "only");
  const Result<std::vector<std::string_view>> skip = named(context, "skip");
  if (!only || !skip) {
    return only ? skip.error() : only.error();
  }
  std::vector<std::string_view> wanted;
  for (const Check& check : doctor::kChecks) {
    const bool listed = only->empty() || std::ranges::find(*only, check.name) != only->end();
    if (listed && std::ranges::find(*skip, check.name) == skip->end()) {
      wanted.push_back(check.name);
    }
  }
  return wanted.empty()
             ? Result<std::vector<std::string_view>>(fail("--skip", "", "leaves no checks", "rollcall doctor --list"))
             : wanted;
}

/// Returns the backends that --collectives names, or none for its default. rollcall-bench-collectives checks whether
/// this build of the trainer has them.
Result<std::vector<std::string>> wanted_backends(const CommandContext& context) {
  const std::vector<std::string> known = split(kDoctorTable[2].words(), '|');
  const std::vector<std::string> backends = context.options.list("collectives");
  for (const std::string& name : backends) {
    if (name == kDoctorTable[2].default_text) {
      return std::vector<std::string>();
    }
    if (std::ranges::find(known, name) == known.end()) {
      return fail(
          "--collectives", name, "is not a backend",
          "--collectives=" +
              nearest(name, known).value_or(fmt::format("{}", fmt::join(known.begin() + 1, known.end(), ", "))));
    }
  }
  return backends;
}

std::string list_text() {
  std::string text;
  for (const Check& check : doctor::kChecks) {
    text += fmt::format("{:<14}{}\n", check.name, check.summary);
  }
  return text;
}

bool contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

Result<void> verdict(const std::vector<doctor::Checked>& findings) {
  const std::vector<std::string> failed = doctor::failed_checks(findings);
  if (failed.empty()) {
    return {};
  }
  return fail("doctor", fmt::format("{}", fmt::join(failed, ",")),
              failed.size() == 1 ? "failed" : "these checks failed", "following the report", ErrorKind::Unavailable);
}

}  // namespace

settings::Table doctor_table() { return kDoctorTable; }

Result<void> run_doctor(CommandContext& context) {
  const command_line::ParsedCommandLine& line = context.line;
  if (!line.positional.empty() || !line.program.empty()) {
    const std::string& extra = line.positional.empty() ? line.program.front() : line.positional.front();
    return fail("doctor", extra, "is one argument too many", "rollcall doctor --help");
  }
  if (line.has("list")) {
    context.out << list_text();
    return {};
  }
  const Result<std::vector<std::string_view>> wanted = wanted_checks(context);
  const Result<std::vector<std::string>> backends = wanted_backends(context);
  if (!wanted || !backends) {
    return wanted ? backends.error() : wanted.error();
  }
  const bool ring = contains(*wanted, "ring");
  const bool speed = contains(*wanted, "speed") && !line.has("no-bench");
  const bool collectives = contains(*wanted, "collectives");
  const Result<std::optional<doctor::JobContext>> world = doctor::examine(
      job::with_slurmctld_facts(context.environment), context.settings,
      {.ring = ring || speed, .benchmark = speed, .collectives = collectives ? *backends : std::vector<std::string>()});
  if (!world || !*world) {
    return world ? Result<void>() : world.error();
  }
  const std::vector<doctor::Checked> findings = doctor::run_checks(**world, *wanted);
  const bool colour = isatty(STDOUT_FILENO) == 1 && !context.environment.get_non_empty("NO_COLOR");
  context.out << (line.has("json") ? doctor::report_json(**world, findings)
                                   : doctor::report_text(**world, findings,
                                                         {command_line::speaks_utf8(context.environment), colour}));
  context.out.flush();
  return verdict(findings);
}

}  // namespace rollcall::cli

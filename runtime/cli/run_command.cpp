#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <random>

#include "runtime/base/this_process.h"
#include "runtime/cli/command.h"
#include "runtime/cli/program.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/agent.h"
#include "runtime/elastic/devices.h"
#include "runtime/elastic/launch_request.h"
#include "runtime/elastic/options.h"
#include "runtime/elastic/status.h"
#include "runtime/elastic/unblocked_output.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/slurm.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/rendezvous/shared_secret.h"
#include "runtime/resolve/resolve.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {
namespace {

/// Returns a version 4 UUID, the name that torchrun gives to a run of one node.
std::string new_run_id() {
  std::random_device random;
  std::string digits;
  while (digits.size() < 32) {
    fmt::format_to(std::back_inserter(digits), "{:08x}", static_cast<std::uint32_t>(random()));
  }
  digits[12] = '4';
  digits[16] = "89ab"[random() % 4];
  return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                     digits.substr(16, 4), digits.substr(20));
}

elastic::HostFacts host_facts(const Environment& environment) {
  return {number_of_cpus(), elastic::count_gpus(environment), elastic::count_xpus(environment), new_run_id()};
}

/// Returns a function that writes to standard error. It does not block the run if the other end does not read.
Reporter standard_error_reporter() {
  return [output = std::make_shared<elastic::UnblockedOutput>(STDERR_FILENO)](const std::string& lines) {
    output->write(lines, elastic::kTerminalPatience);
  };
}

/// Refuses a run of several nodes if the site has set run.network to off.
Result<void> check_network(const elastic::MeetingRequest& meeting, const settings::LaunchSettings& settings) {
  if (meeting.alone || settings.run_network) {
    return {};
  }
  return fail("run.network", "off",
              fmt::format("the agents of rollcall run may not use a network here ({}), so that a run has one node",
                          settings.given.value("run.network").origin),
              "--standalone");
}

/// Returns the secret that the run's keys are made from. If a command line names the endpoint, agents of other steps
/// may come to it, which do not have the secret of this step.
Result<std::string> secret_of(const elastic::MeetingRequest& meeting, const elastic::RunOptions& options,
                              const Environment& environment, const settings::LaunchSettings& settings) {
  if (meeting.alone) {
    return rendezvous::draw_secret();
  }
  settings::Settings given = settings.given;
  if (!meeting.secret_file.empty()) {
    RETURN_IF_ERROR(given.set("rendezvous.secret", meeting.secret_file, "--rdzv-conf=secret"));
  }
  Environment of_run = with_home_and_user(environment);
  if (options.values.value("rdzv-endpoint").origin.starts_with("--") ||
      options.values.value("master-addr").origin.starts_with("--")) {
    of_run.unset(env::kSecretFd);
  }
  return rendezvous::shared_secret(of_run, std::move(given));
}

Result<elastic::RunEnd> run_agent(const elastic::RunOptions& options, const Environment& environment,
                                  const settings::LaunchSettings& settings, const Reporter& report) {
  ASSIGN_OR_RETURN(elastic::LaunchRequest request,
                   elastic::launch_request(options, environment, host_facts(environment)));
  RETURN_IF_ERROR(check_network(request.meeting, settings));
  ASSIGN_OR_RETURN(std::string secret, secret_of(request.meeting, options, environment, settings));
  request.meeting.secret = std::move(secret);
  for (const Error& warning : request.meeting.warnings) {
    report_warning(warning, environment, report);
  }
  elastic::Agent agent(std::move(request), environment, [&report](const std::string& line) { report(line + "\n"); });
  return agent.run();
}

/// Whether the nodes come from the Slurm step, since neither options nor variables name them.
bool asks_slurm(const elastic::RunOptions& options, const Environment& environment) {
  const std::array<std::string_view, 5> kSay{"nnodes", "standalone", "rdzv-endpoint", "master-addr", "node-rank"};
  const bool nobody_said =
      std::ranges::all_of(kSay, [&](std::string_view name) { return options.values.is_default(name); });
  return nobody_said && !launchers::why_not_a_slurm_task(environment);
}

Result<settings::Settings> settings_of(const Environment& environment) {
  const Environment complete = with_home_and_user(environment);  // for settings and paths
  return settings::load_launch_settings(complete, {.site = job::profile_of_plugin(complete)});
}

/// Returns this process's environment as `srun --ddp` would set it, with PET_* variables for all nodes.
Result<Environment> environment_of_step(const Environment& environment, const settings::LaunchSettings& settings) {
  ASSIGN_OR_RETURN(const step::ResolvedStep step,
                   step::resolve_this_step(with_home_and_user(environment), settings, nullptr));
  RETURN_IF_ERROR(step::check_head_is_known(step.facts, step.patch));
  return resolve::apply(step.patch, environment);
}

int show_status(const elastic::RunOptions& options, std::ostream& out) {
  const elastic::Answers answers = elastic::ask_agents();
  out << (options.values.on("json") ? elastic::status_json(answers) : elastic::status_text(answers));
  return 0;
}

/// Runs the agent in `environment`, or in that of the Slurm step.
Result<elastic::RunEnd> run_in(const elastic::RunOptions& options, std::span<const std::string> arguments,
                               const Environment& environment, const Reporter& report) {
  ASSIGN_OR_RETURN(const settings::LaunchSettings settings, settings_of(environment));
  if (!asks_slurm(options, environment)) {
    return run_agent(options, environment, settings, report);
  }
  ASSIGN_OR_RETURN(const Environment of_step, environment_of_step(environment, settings));
  const Result<elastic::RunOptions> again = elastic::parse_run_options(arguments, of_step);
  return again ? run_agent(*again, of_step, settings, report) : again.error();
}

}  // namespace

settings::Table run_options_table() { return elastic::run_table(); }

int run_run(std::span<const std::string> arguments, const Environment& environment, std::ostream& out,
            std::ostream& /*err*/) {
  const Reporter report = standard_error_reporter();
  const Result<elastic::RunOptions> options = elastic::parse_run_options(arguments, environment);
  if (!options) {
    return report_error(options.error(), environment, report);
  }
  if (options->help_topic) {
    const Result<std::string> text = command_help(*find_command("run"), *options->help_topic);
    out << (text ? *text : "");
    return text ? 0 : report_error(text.error(), environment, report);
  }
  if (options->values.on("status")) {
    return show_status(*options, out);
  }
  if (options->values.text("print-completion") != "none") {
    const Result<std::string> script =
        completion_script("--print-completion", options->values.text("print-completion"), "--print-completion=bash");
    out << (script ? *script : "");
    return script ? 0 : report_error(script.error(), environment, report);
  }
  const Result<elastic::RunEnd> end = run_in(*options, arguments, environment, report);
  if (!end) {
    return report_error(end.error(), environment, report);
  }
  if (!end->message.empty()) {
    report(end->message + "\n");
  }
  return end->exit_code;
}

}  // namespace rollcall::cli

#include "runtime/cli/program.h"

#include <fcntl.h>
#include <unistd.h>

#include <iostream>
#include <utility>

#include "runtime/base/child_process.h"
#include "runtime/base/text.h"
#include "runtime/base/time_limit.h"
#include "runtime/cli/command.h"
#include "runtime/cli/env_command.h"
#include "runtime/contract/deadlines.h"
#include "runtime/contract/env_vars.h"
#include "runtime/hooks/task_set_up.h"
#include "runtime/job/own_environment.h"
#include "runtime/job/slurm_files.h"
#include "runtime/launchers/slurm.h"
#include "runtime/settings/launch_settings.h"
#include "runtime/step/gather.h"
#include "runtime/step/resolved_step.h"

namespace rollcall::cli {
namespace {

constexpr std::string_view kExport = "export ";
constexpr std::string_view kUnset = "unset ";

/// Shows text on the standard error of the task, which is the parent process. Slurm does not show that of a prolog.
void tell_user(const std::string& text) {
  const std::string path = "/proc/" + std::to_string(::getppid()) + "/fd/2";
  const int file = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY);
  if (file < 0 || ::write(file, text.data(), text.size()) < 0) {
    for (const std::string& line : split(trim(text), '\n')) {
      std::cout << "print " << line << '\n';  // on the task's standard output, if there is no other way
    }
  }
  if (file >= 0) {
    ::close(file);
  }
}

/// Sets the task up as the plugin does, but without PMIx, whose only client slot belongs to the program.
class PrologTask : public hooks::TaskSetUp {
 public:
  using TaskSetUp::TaskSetUp;

 private:
  Result<job::JobFacts> find_facts(const settings::LaunchSettings& settings) override {
    ASSIGN_OR_RETURN(step::Gathered gathered, step::gather(task(), nullptr));
    launchers::find_head_in_host_file(task(), gathered.facts);
    RETURN_IF_ERROR(step::choose_world(task(), settings, gathered.facts));
    return std::move(gathered.facts);
  }
};

/// Runs the user's own prolog, passes its lines on and applies them to `task`.
Result<int> run_users_prolog(const std::string& program, Environment& task) {
  ASSIGN_OR_RETURN(const ChildOutput output, run_and_capture({program}, task));
  std::cout << output.text;
  apply_task_prolog_lines(output.text, task);
  return output.exit_code;
}

int report(const Error& error, const Environment& task) {
  const int code = report_error(error, task, tell_user, deadline::kOtherTaskReports);
  std::cout.flush();
  return code;
}

/// Removes the variables that srun passed to this prolog from the task's environment.
void restore(Environment& task, const std::optional<std::string>& users_prolog) {
  const std::string name(env::kTaskProlog);
  if (users_prolog) {
    std::cout << kExport << name << '=' << *users_prolog << '\n';
    task.set(name, *users_prolog);
  } else {
    std::cout << kUnset << name << '\n';
    task.unset(name);
  }
  for (const std::string_view ours :
       {env::kForwardedOption, env::kUserTaskProlog, env::kScriptContext, env::kStepSecret}) {
    if (task.get(ours)) {
      std::cout << kUnset << ours << '\n';
      task.unset(ours);
    }
  }
}

}  // namespace

std::string task_prolog_lines(const resolve::EnvPatch& patch, std::vector<std::string>& warnings) {
  std::string lines;
  for (const resolve::EnvChange& change : patch.changes) {
    if (change.action == resolve::Action::Unset) {
      lines.append(kUnset).append(change.name).append("\n");
    } else if (change.action == resolve::Action::Set && change.value.find('\n') != std::string::npos) {
      warnings.push_back(change.name +
                         " has a line feed in its value, which a task prolog cannot set; it is left unchanged");
    } else if (change.action == resolve::Action::Set) {
      lines.append(kExport).append(change.name).append("=").append(change.value).append("\n");
    }
  }
  return lines;
}

void apply_task_prolog_lines(std::string_view lines, Environment& environment) {
  for (const std::string& line : split(lines, '\n')) {
    const std::string_view text = line;
    const std::size_t equals = line.find('=');
    if (text.starts_with(kExport) && equals != std::string::npos) {
      environment.set(std::string(trim(text.substr(kExport.size(), equals - kExport.size()))), line.substr(equals + 1));
    } else if (text.starts_with(kUnset)) {
      environment.unset(trim(text.substr(kUnset.size())));
    }
  }
}

int run_task_prolog(const Environment& environment) {
  Environment task = environment;
  const std::optional<std::string> option = task.get(env::kForwardedOption);
  const std::optional<std::string> users_prolog = task.get_non_empty(env::kUserTaskProlog);
  restore(task, users_prolog);
  if (users_prolog) {
    const Result<int> code = run_users_prolog(*users_prolog, task);
    if (!code) {
      Error error = code.error();
      error.of_this_node = true;  // other nodes may have that program
      return report(error, task);
    }
    if (*code != 0) {
      return *code;
    }
  }
  if (!option) {
    std::cout.flush();
    return to_int(ExitCode::Success);
  }
  task = job::with_slurmctld_facts(std::move(task));
  TimeLimit limit(settings::default_task_timeout(), [&task](const std::string& doing, TimeLimit::Seconds patience) {
    ::_exit(report(settings::out_of_time(task.get(env::kSlurmNodeName).value_or("this node"), doing, patience), task));
  });
  PrologTask set_up(task, limit);
  Result<resolve::EnvPatch> patch = set_up.run({.site = job::profile_of_plugin(task), .ddp = *option});
  if (!patch) {
    limit.set_patience(std::chrono::hours(1));  // nothing that follows can take too long
    return report(patch.error(), task);
  }
  std::cout << task_prolog_lines(*patch, patch->warnings);
  if (const auto warnings = step::warnings_to_report(*set_up.facts(), *patch); !warnings.empty()) {
    tell_user(warning_lines(warnings));
  }
  std::cout.flush();
  return to_int(std::cout ? ExitCode::Success : ExitCode::InputOutput);
}

}  // namespace rollcall::cli

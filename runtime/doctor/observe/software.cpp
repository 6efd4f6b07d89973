#include "runtime/doctor/observe/observe.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "runtime/base/child_process.h"
#include "runtime/base/result.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/install/plan.h"
#include "runtime/install/plugin_file.h"
#include "runtime/install/status.h"
#include "runtime/job/marker.h"
#include "runtime/job/slurm_files.h"

namespace rollcall::doctor {
namespace {

constexpr std::chrono::seconds kPatience{5};

std::string slurm_version() {
  const Result<std::string> text = output_of({"scontrol", "--version"}, Environment::of_this_process(), kPatience);
  constexpr std::string_view kProduct = "slurm";
  std::string_view words = text ? trim(*text) : std::string_view();
  words = words.substr(0, words.find('\n'));
  // "slurm 24.11.5", Debian's "slurm-wlm 22.05.8"
  return words.starts_with(kProduct) ? std::string(words.substr(words.rfind(' ') + 1)) : "";
}

/// Returns scontrol's output; empty where it does not answer.
std::string slurms_answer(std::vector<std::string> question) {
  question.insert(question.begin(), "scontrol");
  const Result<std::string> text = output_of(question, Environment::of_this_process(), kPatience);
  return text ? *text : "";
}

std::string value_of(std::string_view key, const std::string& answer) {
  for (const std::string& line : split(answer, '\n')) {
    for (const auto& [name, value] : job::slurm_conf_pairs(line)) {
      if (name == key) {
        return value;
      }
    }
  }
  return "";
}

/// Returns the version number from the library's text "OpenPMIx 4.2.2 (PMIx Standard: ...)".
std::string pmix_version() {
  void* const library = dlopen("libpmix.so.2", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    return "";
  }
  using GetVersion = const char* (*)();
  const auto get_version = reinterpret_cast<GetVersion>(dlsym(library, "PMIx_Get_version"));
  const std::string text = get_version == nullptr ? "" : get_version();
  const std::size_t begin = text.find_first_of("0123456789");
  return begin == std::string::npos ? text : text.substr(begin, text.find_first_of(" ,(", begin) - begin);
}

/// Returns the checksum of an installed file; empty where it cannot be read.
std::string checksum_of(const std::string& path) {
  const std::optional<std::string> bytes = install::read_file(path);
  return bytes ? fmt::format("{:08x}", job::fnv1a(*bytes)) : "";
}

/// Returns the plugins in this node's plugstack.conf; those for other versions of Slurm prepare an upgrade.
std::string plugins_here(const Environment& environment) {
  std::string plugins;
  const std::string stack = job::plugstack_of(job::find_slurm_conf(environment), install::read_file);
  for (const job::PluginLine& line : job::plugin_lines(stack, install::read_file, job::names_in)) {
    const std::optional<std::string> bytes = install::read_file(line.plugin);
    const auto built_for = bytes ? install::plugin_version(*bytes) : std::nullopt;
    plugins += fmt::format("{}{} ({})", plugins.empty() ? "" : " and ", built_for ? built_for->text() : line.plugin,
                           bytes ? checksum_of(line.plugin) : "missing");
  }
  return plugins;
}

}  // namespace

Versions observe_versions(const TaskInputs& inputs) {
  Versions versions;
  versions.plugin = plugins_here(inputs.environment);
  versions.program = checksum_of(program_file());
  if (const std::optional<settings::SiteProfile>& site = inputs.settings.given.site()) {
    versions.profile = fmt::format("{} ({})", site->name, checksum_of(site->file));
  }
  versions.slurm = slurm_version();
  versions.pmix = pmix_version();
  versions.glibc = gnu_get_libc_version();
  utsname system{};
  if (uname(&system) == 0) {
    versions.kernel = system.release;
  }
  return versions;
}

NodeLoss observe_node_loss(const Environment& environment) {
  const auto job_id = environment.get_non_empty(env::kSlurmJobId);
  const std::string config = slurms_answer({"show", "config"});
  const std::string job = job_id ? slurms_answer({"show", "job", *job_id}) : "";
  const auto seconds = parse_integer<std::int64_t>(value_of("SlurmdTimeout", config));
  const std::string batch = value_of("BatchFlag", job);
  NodeLoss loss;
  loss.known = seconds.has_value();
  loss.noticed_seconds = static_cast<double>(seconds.value_or(0));
  if (batch == "0") {
    loss.requeues = std::nullopt;
  } else {
    loss.requeues = batch.empty() ? value_of("JobRequeue", config) == "1" : value_of("Requeue", job) == "1";
  }
  return loss;
}

std::string slurms_address_of(const std::string& host) {
  return value_of("NodeAddr", slurms_answer({"show", "node", host}));
}

VenvFacts observe_venv(const std::string& path, std::chrono::duration<double> patience) {
  VenvFacts facts;
  facts.path = path;
  const std::string python = path + "/bin/python";
  if (access(python.c_str(), X_OK) != 0) {
    facts.error = "bin/python: " + errno_text(errno);
    return facts;
  }
  const Result<std::string> version =
      output_of({python, "-I", "-c", "import platform; print(platform.python_version())"},
                Environment::of_this_process(), patience);
  if (version) {
    facts.version = trim(*version);
  } else {
    facts.error = "bin/python " + version.error().reason;
  }
  return facts;
}

LaunchMethod observe_launch_method(const Environment& environment) {
  install::Status status = install::install_status(environment);
  Environment of_srun = environment;
  if (!status.slurm_conf.empty()) {
    of_srun.set("SLURM_CONF", status.slurm_conf);
  }
  const Result<std::string> help = output_of({"srun", "--help"}, of_srun, kPatience);
  LaunchMethod way;
  way.srun_exists = help.has_value();
  way.srun_has_option = help && help->find("--ddp") != std::string::npos;
  way.installation = install::way_name(status.way);
  way.plugin = std::move(status.plugin);
  way.problems = std::move(status.problems);
  const std::string task_prolog = value_of("TaskProlog", slurms_answer({"show", "config"}));
  way.task_prolog = task_prolog == "(null)" ? "" : task_prolog;
  const job::Marker marker = job::marker_of(environment);
  for (const auto& [name, hash] : marker) {
    if (const auto value = environment.get(name); value && job::fnv1a(*value) != hash) {
      way.changed.push_back(name);
    }
  }
  return way;
}

}  // namespace rollcall::doctor

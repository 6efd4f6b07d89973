#include "runtime/install/status.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/install/hook_program.h"
#include "runtime/install/plan.h"
#include "runtime/install/plugin_file.h"
#include "runtime/job/slurm_files.h"
#include "runtime/settings/layers.h"

namespace rollcall::install {
namespace {

bool readable(const std::string& path) { return ::access(path.c_str(), R_OK) == 0; }

void check_plugin(Status& status) {
  const std::optional<std::string> bytes = read_file(status.plugin);
  const std::optional<SlurmVersion> built_for = bytes ? plugin_version(*bytes) : std::nullopt;
  if (!bytes) {
    status.problems.push_back(
        status.plugin + ": cannot be read on this host, so that srun does not know --ddp; try installing it here");
  } else if (!built_for) {
    status.problems.push_back(status.plugin + ": is not a SPANK plugin; try installing rollcall again");
  }
  if (built_for) {
    status.plugin_version = built_for->text();
    const auto slurm = parse_slurm_version(status.slurm_version);
    if (slurm && !slurm->fits(*built_for)) {
      status.problems.push_back(
          fmt::format("{}: was built for Slurm {}, this is {}; try building it with this Slurm's headers",
                      status.plugin, built_for->text(), slurm->text()));
    }
  }
}

/// Checks the program that the plugin of the active `line` runs.
void check_hook_program(const PluginLine& line, Status& status) {
  const ImageRoot here;
  status.program = line.program.empty() ? program_above(line.plugin, here).value_or("") : line.program;
  const settings::PluginProfile profile = settings::plugin_profile(line.config, line.config_owner);
  const std::string bytes = read_file(line.plugin).value_or("");
  if (const Result<void> checked = check_program(status.program, line.plugin, bytes, profile.owners, here); !checked) {
    status.problems.push_back(checked.error().text());
  }
}

void check_users_hook(const PluginLine& line, Status& status) {
  if (!line.task_prolog.empty() && ::access(line.task_prolog.c_str(), X_OK) != 0) {
    status.problems.push_back(line.task_prolog + ": cannot be executed; try rollcall install --user again");
  }
}

/// Returns "JOB.STEP" of this task's step; empty where this is not a task of srun.
std::string step_of(const Environment& environment) {
  constexpr std::uint32_t kFirstSpecial = 0xffff'fff0;  // the batch script, salloc's shell (slurm.h)
  const auto step = parse_integer<std::uint32_t>(environment.get(env::kSlurmStepId).value_or(""));
  return step && *step < kFirstSpecial ? fmt::format("{}.{}", environment.get(env::kSlurmJobId).value_or(""), *step)
                                       : "";
}

/// Returns the slurm.conf of the user's installation; empty where there is none.
std::string users_conf(const Environment& environment) {
  const Result<std::string> folder = user_folder(environment);
  return folder && readable(*folder + "/slurm.conf") ? *folder + "/slurm.conf" : "";
}

void note_unused_installation(const Environment& environment, Status& status) {
  const std::string own = users_conf(environment);
  if (status.way == Way::None && !own.empty()) {
    status.problems.push_back(
        step_of(environment).empty()
            ? fmt::format("your installation is not active; try export SLURM_CONF={}", own)
            : fmt::format("a task does not know whether its step was started with your installation, as it is after "
                          "export SLURM_CONF={}",
                          own));
  }
  if (status.way == Way::SiteAndUser) {
    status.problems.push_back("the site has rollcall too; try rollcall uninstall --user, and unsetting SLURM_CONF");
  }
}

/// Returns whether a plugin is for this Slurm: Slurm skips lines with plugins for other versions.
bool fits(const std::string& plugin, const Status& status) {
  const std::optional<std::string> bytes = read_file(plugin);
  const auto built_for = bytes ? plugin_version(*bytes) : std::nullopt;
  const auto slurm = parse_slurm_version(status.slurm_version);
  return built_for && slurm && slurm->fits(*built_for);
}

void look_at(const std::string& slurm_conf, const Environment& environment, Status& status) {
  status.slurm_conf = slurm_conf;
  const auto slurm = slurm_version(environment, slurm_conf);
  status.slurm_version = slurm ? slurm->text() : "";
  status.plugstack = plugstack_of(slurm_conf, read_file);
  PluginLine in_force;
  for (const PluginLine& line : plugin_lines(status.plugstack, read_file, names_in)) {
    const Way way = line.task_prolog.empty() ? Way::Site : Way::User;
    status.way = status.way == Way::None || status.way == way ? way : Way::SiteAndUser;
    if (status.plugin.empty() || (fits(line.plugin, status) && !fits(status.plugin, status))) {
      status.plugin = line.plugin;
      in_force = line;
    }
    status.config = status.config.empty() ? line.config : status.config;
    check_users_hook(line, status);
  }
  if (readable(in_force.plugin)) {
    check_hook_program(in_force, status);
  }
}

}  // namespace

Result<std::string> user_folder(const Environment& environment) {
  if (const auto config = environment.get_non_empty("XDG_CONFIG_HOME")) {
    return *config + "/rollcall/slurm";
  }
  if (const auto home = environment.get_non_empty("HOME")) {
    return *home + "/.config/rollcall/slurm";
  }
  return fail("HOME", "", "is not set", "setting it, or setting XDG_CONFIG_HOME");
}

Result<std::string> site_slurm_conf(const Environment& environment, const std::string& named, const ImageRoot& root) {
  if (!named.empty()) {
    return readable(root.on_this_machine(named)) ? Result<std::string>(named)
                                                 : fail("--slurm-conf", root.shown(named), "cannot be read",
                                                        "naming the site's slurm.conf", ErrorKind::NoInput);
  }
  const Result<std::string> folder = user_folder(environment);
  const auto current = root.is_this_machine() ? environment.get_non_empty("SLURM_CONF") : std::nullopt;
  if (current && folder && *current == *folder + "/slurm.conf") {
    if (const auto included = first_include(*current, read_file)) {
      return *included;
    }
  } else if (current && readable(*current)) {
    return *current;
  }
  for (const char* const path : job::kSlurmConfPaths) {
    if (readable(root.on_this_machine(path))) {
      return std::string(path);
    }
  }
  return fail("slurm.conf", "", "is not in a usual folder", "--slurm-conf=FILE (scontrol show config names it)",
              ErrorKind::NoInput);
}

Status install_status(const Environment& environment) {
  Status status;
  if (const std::string in_force = job::find_slurm_conf(environment); !in_force.empty()) {
    look_at(in_force, environment, status);
  }
  // slurmd gives tasks the site's SLURM_CONF, whatever srun had. ROLLCALL_STEP shows that srun used the user's.
  const std::string own = users_conf(environment);
  const std::string step = step_of(environment);
  if (status.way == Way::None && !own.empty() && !step.empty() && environment.get(env::kStep) == step) {
    look_at(own, environment, status);
  }
  if (!status.plugin.empty()) {
    check_plugin(status);
  }
  note_unused_installation(environment, status);
  return status;
}

std::vector<std::string> changeable_by_others(const std::string& path, const ImageRoot& root) {
  std::vector<std::string> lines;
  for (const std::string& place : root.paths_on_the_way(path)) {
    struct stat entry {};
    const bool there = ::stat(place.c_str(), &entry) == 0;
    if (const auto found = there ? trust_problem(entry, place, TrustedOwners()) : std::nullopt) {
      lines.push_back(fmt::format("{}: others than root can change it, and slurmstepd runs its code as root; try {}",
                                  place, found->remedy));
    }
  }
  return lines;
}

Result<void> check_trusted(const std::string& path, const ImageRoot& root, const TrustedOwners& owners, Sticky sticky) {
  const TrustedOwners trusted = with_owner_of(root.shown("/"), owners);
  for (const std::string& place : root.paths_on_the_way(path)) {
    struct stat entry {};
    const bool there = ::stat(place.c_str(), &entry) == 0;
    if (sticky == Sticky::Closed && S_ISDIR(entry.st_mode) && (entry.st_mode & S_ISVTX) != 0) {
      entry.st_mode &= ~static_cast<mode_t>(S_IWGRP | S_IWOTH);
    }
    if (const auto found = there ? trust_problem(entry, place, trusted) : std::nullopt) {
      return settings::refuse_untrusted(root.shown(path), *found);
    }
  }
  return {};
}

std::vector<std::string> closed_to_users(const std::string& path, const ImageRoot& root) {
  std::vector<std::string> lines;
  for (const std::string& place : root.paths_on_the_way(path)) {
    struct stat entry {};
    const bool there = ::stat(place.c_str(), &entry) == 0;
    const bool folder = S_ISDIR(entry.st_mode);
    if (there && (entry.st_mode & (folder ? S_IXOTH : S_IROTH)) == 0) {
      lines.push_back(fmt::format("{}: users cannot {} it (mode {:04o}), and their srun fails; try chmod o+{} {}",
                                  place, folder ? "enter" : "read", entry.st_mode & 07777U, folder ? 'x' : 'r', place));
    }
  }
  return lines;
}

std::string way_name(Way way) {
  switch (way) {
    case Way::None:
      return "none";
    case Way::Site:
      return "site";
    case Way::User:
      return "user";
    case Way::SiteAndUser:
      return "site and user";
  }
  return "";
}

std::string status_text(const Status& status) {
  const auto or_unknown = [](const std::string& text) { return text.empty() ? "unknown" : text; };
  std::string text = fmt::format("{:<15}{}\n", "installation", way_name(status.way));
  text += fmt::format("{:<15}{}\n", "slurm.conf", or_unknown(status.slurm_conf));
  text += fmt::format("{:<15}{}\n", "plugstack.conf", or_unknown(status.plugstack));
  text += fmt::format("{:<15}{}\n", "Slurm", or_unknown(status.slurm_version));
  if (!status.plugin.empty()) {
    text += fmt::format("{:<15}{}, for Slurm {}\n", "plugin", status.plugin, or_unknown(status.plugin_version));
  }
  if (!status.program.empty()) {
    text += fmt::format("{:<15}{}\n", "program", status.program);
  }
  if (!status.config.empty()) {
    text += fmt::format("{:<15}{}\n", "profile", status.config);
  }
  if (status.way == Way::None) {
    text += "without an installation: srun rollcall exec -- PROGRAM; try rollcall install --user\n";
  }
  for (const std::string& problem : status.problems) {
    text.append("problem: ").append(problem).append("\n");
  }
  return text;
}

std::string status_json(const Status& status) {
  const nlohmann::ordered_json json{{"way", way_name(status.way)},
                                    {"slurm_conf", status.slurm_conf},
                                    {"plugstack", status.plugstack},
                                    {"plugin", status.plugin},
                                    {"plugin_version", status.plugin_version},
                                    {"slurm_version", status.slurm_version},
                                    {"program", status.program},
                                    {"config", status.config},
                                    {"problems", status.problems}};
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace rollcall::install

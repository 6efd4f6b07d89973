#include <fmt/format.h>

#include <algorithm>

#include "runtime/contract/env_vars.h"
#include "runtime/install/plan.h"
#include "runtime/install/sealed_text.h"

namespace rollcall::install {
namespace {

std::string hook_path(const std::string& folder) { return fmt::format("{}/{}", folder, env::kTaskPrologName); }

Result<void> check_paths(const UserInput& input) {
  for (const auto& [name, path] : {std::pair{"HOME", &input.folder},
                                   {"--slurm-conf", &input.slurm_conf},
                                   {"--plugin", &input.plugin},
                                   {"rollcall", &input.program}}) {
    RETURN_IF_ERROR(check_slurm_path(name, *path));
  }
  return {};
}

Error not_ours(const std::string& path, Seal state) {
  return fail(path, "", state == Seal::Edited ? "was edited since rollcall wrote it" : "was not written by rollcall",
              "moving it away first", ErrorKind::CannotCreate);
}

/// Adds the change that writes a sealed file, unless it exists.
Result<void> want_file(const std::string& path, const std::string& text, const char* why, const ReadFile& read,
                       Plan& plan) {
  const std::string wanted = seal(text);
  const std::optional<std::string> present = read(path);
  if (present && seal_of(*present) != Seal::Intact) {
    return not_ours(path, seal_of(*present));
  }
  if (present != wanted) {
    plan.changes.push_back({path, wanted, std::nullopt, why});
  }
  return {};
}

Result<void> want_link(const std::string& path, const std::string& target, const char* why, const ReadFile& read,
                       const ReadLink& link, Plan& plan) {
  const std::optional<std::string> present = link(path);
  if (!present && read(path)) {
    return not_ours(path, Seal::Foreign);
  }
  if (present != target) {
    plan.changes.push_back({path, std::nullopt, target, why});
  }
  return {};
}

std::string slurm_conf_text(const UserInput& input) {
  return fmt::format("include {}\nPlugStackConfig={}/plugstack.conf\n", input.slurm_conf, input.folder);
}

std::string plugstack_text(const UserInput& input, const ReadFile& read) {
  const std::string sites = plugstack_of(input.slurm_conf, read);
  const std::string include = read(sites) ? fmt::format("include {}\n", sites) : "";
  return fmt::format("{}optional {} task_prolog={}\n", include, input.plugin, hook_path(input.folder));
}

Result<void> site_has_it_not(const UserInput& input, const ReadFile& read, const ListNames& names) {
  const std::vector<PluginLine> lines = plugin_lines(plugstack_of(input.slurm_conf, read), read, names);
  if (lines.empty()) {
    return {};
  }
  return fail("--user", lines.front().file, "already loads rollcall for all users",
              "srun --ddp, which works without a user's installation", ErrorKind::Configuration);
}

}  // namespace

Result<void> check_slurm_path(const std::string& name, const std::string& path) {
  if (path.find_first_of(" \t\n#\"") == std::string::npos) {
    return {};
  }
  return fail(name, path, "has a character that paths in Slurm's configuration files cannot have",
              "choosing another path");
}

Result<Plan> plan_user_install(const UserInput& input, const ReadFile& read, const ReadLink& link,
                               const ListNames& names) {
  for (const Result<void>& checked :
       {check_paths(input), check_slurm_path("PlugStackConfig", plugstack_of(input.slurm_conf, read)),
        site_has_it_not(input, read, names)}) {
    if (!checked) {
      return checked.error();
    }
  }
  Plan plan;
  std::vector<Result<void>> wanted{
      want_file(input.folder + "/slurm.conf", slurm_conf_text(input),
                "the site's configuration, with your own plugstack.conf", read, plan),
      want_file(input.folder + "/plugstack.conf", plugstack_text(input, read), "the site's plugins, and rollcall's",
                read, plan),
      want_link(hook_path(input.folder), input.program, "runs before each task of srun --ddp", read, link, plan)};
  const std::string site_folder = input.slurm_conf.substr(0, input.slurm_conf.rfind('/'));
  for (const std::string& name : input.companions) {
    wanted.push_back(want_link(fmt::format("{}/{}", input.folder, name), fmt::format("{}/{}", site_folder, name),
                               "Slurm looks for it beside slurm.conf", read, link, plan));
  }
  for (const Result<void>& one : wanted) {
    if (!one) {
      return one.error();
    }
  }
  plan.notes.push_back(
      fmt::format("put this line into your shell's start-up file, and before srun in batch scripts:\n"
                  "  export SLURM_CONF={}/slurm.conf",
                  input.folder));
  return plan;
}

Result<Plan> plan_user_uninstall(const std::string& folder, const std::vector<std::string>& present,
                                 const ReadFile& read, const ReadLink& link) {
  Plan plan;
  const std::string site_conf = first_include(folder + "/slurm.conf", read).value_or("");
  const std::string site_folder = site_conf.substr(0, site_conf.rfind('/') + 1);
  for (const std::string& name : present) {
    const std::string path = fmt::format("{}/{}", folder, name);
    const std::optional<std::string> target = link(path);
    if (target && (path == hook_path(folder) || target == site_folder + name)) {
      plan.changes.push_back({path, std::nullopt, std::nullopt, "a link from rollcall"});
      continue;
    }
    const Seal state = target ? Seal::Foreign : seal_of(read(path).value_or(""));
    if (state == Seal::Intact) {
      plan.changes.push_back({path, std::nullopt, std::nullopt, "as rollcall wrote it"});
    } else if (state == Seal::Edited || name == "slurm.conf" || name == "plugstack.conf") {
      return fail(path, "", "was edited since rollcall wrote it; nothing was removed", "moving it away first",
                  ErrorKind::CannotCreate);
    } else {
      plan.notes.push_back(fmt::format("{} is not removed, because it is not rollcall's", path));
    }
  }
  plan.folders_to_remove = {folder, folder.substr(0, folder.rfind('/'))};
  if (!plan.changes.empty()) {
    plan.notes.push_back("remove `export SLURM_CONF=" + folder +
                         "/slurm.conf` from your shell's start-up file and scripts");
  }
  return plan;
}

}  // namespace rollcall::install

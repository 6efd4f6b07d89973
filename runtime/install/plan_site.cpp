#include <fmt/format.h>

#include "runtime/install/plan.h"
#include "runtime/install/sealed_text.h"

namespace rollcall::install {
namespace {

/// A line of a block that says that there was no plugstack.conf before, so that uninstalling removes the file.
constexpr std::string_view kMadeFile = "# The file was made for them.\n";

bool was_made(std::string_view plugstack) { return lines_of_block(plugstack).starts_with(kMadeFile); }

Error edited(const std::string& path) {
  return fail(path, "", "rollcall's lines in it were edited", "removing them by hand", ErrorKind::CannotCreate);
}

constexpr std::string_view kBefore = "# The plugin before: ";

/// Returns the text after `key` in a block's lines, up to the next blank; empty where there is none.
std::string word_after(std::string_view lines, std::string_view key) {
  const std::size_t at = lines.find(key);
  const std::string_view rest = at == std::string_view::npos ? std::string_view() : lines.substr(at + key.size());
  return std::string(rest.substr(0, rest.find_first_of(" \t\n")));
}

/// Returns the plugin that was installed before `plugin`; empty where there was none.
std::string plugin_before(std::string_view lines, const std::string& plugin) {
  const std::string present = word_after(lines, "optional ");
  return present == plugin ? word_after(lines, kBefore) : present;
}

std::string lines_for(const SiteInput& input, const ReadFile& read) {
  const bool has_profile = input.profile || read(input.profile_path);
  const std::optional<std::string> present = read(input.plugstack);
  const std::string_view lines = present ? lines_of_block(*present) : std::string_view();
  const std::string before = plugin_before(lines, input.plugin);
  const auto kept = [&](const std::string& key) {
    const std::string value = word_after(lines, key);
    return value.empty() ? "" : key + value;
  };
  return fmt::format("{}{}optional {}{}{}{}{}\n", !present || was_made(*present) ? kMadeFile : "",
                     before.empty() ? "" : fmt::format("{}{}\n", kBefore, before), input.plugin,
                     has_profile ? " config=" + input.profile_path : "",
                     input.config_owner.empty() ? "" : " config_owner=" + input.config_owner, kept(" rollcall="),
                     kept(" log="));
}

void want_plugin(const SiteInput& input, Plan& plan) {
  if (input.program_text) {
    plan.changes.push_back({.path = input.program,
                            .text = input.program_text,
                            .link_to = std::nullopt,
                            .why = "the program that the plugin runs, from the same build",
                            .executable = true});
  }
  if (input.plugin_text) {
    plan.changes.push_back({input.plugin, input.plugin_text, std::nullopt, "the plugin, under a path of its own"});
  }
}

Result<void> want_profile(const SiteInput& input, const ReadFile& read, Plan& plan) {
  if (!input.profile) {
    return {};
  }
  const std::string& path = input.profile_path;
  const std::optional<std::string> present = read(path);
  if (present && seal_of(*present) != Seal::Intact && *present != *input.profile) {
    return fail("--profile", input.root.shown(path), "differs from the given profile, and was not written by rollcall",
                "moving it away first", ErrorKind::CannotCreate);
  }
  if (present != seal(*input.profile) && present != *input.profile) {
    plan.changes.push_back({path, seal(*input.profile), std::nullopt, "the site's settings"});
  }
  return {};
}

Result<void> want_line(const SiteInput& input, const ReadFile& read, const ListNames& names, Plan& plan) {
  const std::string& path = input.plugstack;
  const std::string present = read(path).value_or("");
  const std::optional<Seal> block = block_of(present);
  if (block == Seal::Edited) {
    return edited(input.root.shown(path));
  }
  const std::string rest = without_block(present);
  const ReadFile without_ours = [&](const std::string& name) {
    return name == path ? std::optional(rest) : read(name);
  };
  if (const auto others = plugin_lines(path, without_ours, names); !others.empty()) {
    const PluginLine& other = others.front();
    return fail("--site", input.root.shown(other.file),
                fmt::format("its line \"{} {} ...\" already loads rollcall", other.required ? "required" : "optional",
                            other.plugin),
                "removing that line first", ErrorKind::Configuration);
  }
  if (const std::string wanted = with_block(rest, lines_for(input, read)); wanted != present) {
    plan.changes.push_back({path, wanted, std::nullopt, "srun, sbatch and salloc load the plugin"});
  }
  return {};
}

/// Checks PlugStackConfig: for Slurm a relative path belongs to the folder in which srun or slurmd was started.
Result<void> check_plugstack(const SiteInput& input) {
  return input.plugstack.starts_with('/') ? Result<void>()
                                          : fail("PlugStackConfig", input.plugstack,
                                                 "is not an absolute path in " + input.root.shown(input.slurm_conf),
                                                 "changing it to one", ErrorKind::Configuration);
}

}  // namespace

Result<Plan> plan_site_install(const SiteInput& input, const ReadFile& read, const ListNames& names) {
  for (const Result<void>& checked : {check_slurm_path("--plugin", input.plugin), check_plugstack(input)}) {
    if (!checked) {
      return checked.error();
    }
  }
  Plan plan;
  plan.for_all_users = true;
  want_plugin(input, plan);
  for (const Result<void>& one : {want_profile(input, read, plan), want_line(input, read, names, plan)}) {
    if (!one) {
      return one.error();
    }
  }
  const std::string present = read(input.plugstack).value_or("");
  if (const std::string before = plugin_before(lines_of_block(present), input.plugin); !before.empty()) {
    plan.notes.push_back("running jobs continue with their plugin; to go back: rollcall install --site --plugin=" +
                         input.root.shown(before));
  }
  plan.notes.push_back("every node needs the same files, compute nodes before login nodes; no daemon needs a restart");
  plan.notes.push_back("try it: srun -N2 --ddp env | grep ^MASTER_");
  return plan;
}

Result<Plan> plan_site_uninstall(const SiteInput& input, const ReadFile& read) {
  RETURN_IF_ERROR(check_plugstack(input));
  Plan plan;
  const std::string& path = input.plugstack;
  const std::string present = read(path).value_or("");
  const std::optional<Seal> block = block_of(present);
  if (block == Seal::Edited) {
    return edited(input.root.shown(path));
  }
  if (block) {
    const std::string rest = without_block(present);
    const bool none_is_left = rest.empty() && was_made(present);
    plan.notes.push_back("the plugin is not removed, because running jobs use it: " +
                         input.root.shown(word_after(lines_of_block(present), "optional ")));
    plan.changes.push_back(
        {path, none_is_left ? std::nullopt : std::optional(rest), std::nullopt, "without rollcall's lines", true});
  }
  const std::string& profile = input.profile_path;
  if (const auto text = read(profile)) {
    if (seal_of(*text) == Seal::Intact) {
      plan.changes.push_back({profile, std::nullopt, std::nullopt, "as rollcall wrote it", true});
      plan.folders_to_remove.push_back(profile.substr(0, profile.rfind('/')));
    } else {
      plan.notes.push_back(input.root.shown(profile) +
                           " is not removed, because rollcall did not write it or it was edited");
    }
  }
  return plan;
}

}  // namespace rollcall::install

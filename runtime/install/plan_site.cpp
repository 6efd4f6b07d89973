#include <fmt/format.h>

#include "runtime/install/plan.h"
#include "runtime/install/sealed_text.h"

namespace rollcall::install {
namespace {

/// In a block: there was no plugstack.conf before, so none is left behind.
constexpr std::string_view kMadeFile = "# The file was made for them.\n";

bool was_made(std::string_view plugstack) { return lines_of_block(plugstack).starts_with(kMadeFile); }

Error edited(const std::string& path) {
  return fail(path, "", "what rollcall wrote there was edited since", "taking it out by hand", ExitCode::CannotCreate);
}

std::string lines_for(const SiteInput& input, const ReadFile& read) {
  const bool has_profile = input.profile || read(input.profile_path);
  const std::optional<std::string> present = read(input.plugstack);
  return fmt::format("{}optional {}{}\n", !present || was_made(*present) ? kMadeFile : "", input.plugin,
                     has_profile ? " config=" + input.profile_path : "");
}

Result<void> want_profile(const SiteInput& input, const ReadFile& read, Plan& plan) {
  if (!input.profile) {
    return {};
  }
  const std::string& path = input.profile_path;
  const std::optional<std::string> present = read(path);
  if (present && seal_of(*present) != Seal::Intact && *present != *input.profile) {
    return fail("--profile", input.root.shown(path), "another profile is there already",
                "editing it, or moving it away", ExitCode::CannotCreate);
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
    return fail("--site", input.root.shown(others.front().file), "loads " + others.front().plugin + " already",
                "taking that line out, and again", ExitCode::Configuration);
  }
  if (const std::string wanted = with_block(rest, lines_for(input, read)); wanted != present) {
    plan.changes.push_back({path, wanted, std::nullopt, "srun, sbatch and salloc load the plugin"});
  }
  return {};
}

/// Slurm takes another one for a file of the folder in which srun or slurmd was started.
Result<void> check_plugstack(const SiteInput& input) {
  return input.plugstack.starts_with('/')
             ? Result<void>()
             : fail("PlugStackConfig", input.plugstack, "is no absolute path in " + input.root.shown(input.slurm_conf),
                    "giving it one", ExitCode::Configuration);
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
  for (const Result<void>& one : {want_profile(input, read, plan), want_line(input, read, names, plan)}) {
    if (!one) {
      return one.error();
    }
  }
  plan.notes.push_back("the same files belong on every login and compute node; no daemon needs a restart");
  plan.notes.push_back("try it: srun -N2 --ddp env | grep MASTER_");
  return plan;
}

Result<Plan> plan_site_uninstall(const SiteInput& input, const ReadFile& read) {
  if (const Result<void> checked = check_plugstack(input); !checked) {
    return checked.error();
  }
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
    plan.changes.push_back(
        {path, none_is_left ? std::nullopt : std::optional(rest), std::nullopt, "without rollcall's lines", true});
  }
  const std::string& profile = input.profile_path;
  if (const auto text = read(profile)) {
    if (seal_of(*text) == Seal::Intact) {
      plan.changes.push_back({profile, std::nullopt, std::nullopt, "as rollcall wrote it", true});
      plan.folders_to_remove.push_back(profile.substr(0, profile.rfind('/')));
    } else {
      plan.notes.push_back(input.root.shown(profile) + " was written or edited by somebody: left there");
    }
  }
  return plan;
}

}  // namespace rollcall::install

#include "runtime/resolve/patch_builder.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "runtime/contract/env_vars.h"
#include "runtime/job/own_environment.h"

namespace rollcall::resolve {
namespace {

bool same_ranks(const job::JobFacts& facts, const Environment& user) {
  return user.get(env::kRank) == std::to_string(facts.rank) &&
         user.get(env::kWorldSize) == std::to_string(facts.world_size);
}

}  // namespace

PatchBuilder::PatchBuilder(const job::JobFacts& facts, const settings::LaunchSettings& settings,
                           const Environment& user)
    : facts_(facts), settings_(settings), user_(user), outer_(job::marker_of(user)), step_(job::step_name(facts)) {
  same_step_ = user.get(env::kStep) == step_;
  same_world_ = same_ranks(facts, user);
  patch_.warnings = facts.warnings;
}

std::optional<std::string> PatchBuilder::users(std::string_view name) const {
  std::optional<std::string> value = user_.get_non_empty(name);
  return value && !job::is_marked(outer_, name, *value) ? value : std::nullopt;
}

std::optional<std::string> PatchBuilder::enclosing(std::string_view name) const {
  std::optional<std::string> value = user_.get_non_empty(name);
  return same_step_ && value && job::is_marked(outer_, name, *value) ? value : std::nullopt;
}

std::optional<std::string> PatchBuilder::inherited(std::string_view name, std::string_view setting) const {
  return settings_.given.is_default(setting) ? enclosing(name) : std::nullopt;
}

void PatchBuilder::keep(std::string_view name, const std::string& value, bool of_user) {
  if (of_user) {
    patch_.changes.push_back({std::string(name), value, Action::Keep, "user", "set by the user"});
    return;
  }
  patch_.changes.push_back({std::string(name), value, Action::Keep, "rollcall", "set for this step already"});
  ours_.insert_or_assign(std::string(name), job::fnv1a(value));
}

void PatchBuilder::set(const Proposal& proposal) {
  patch_.changes.push_back({std::string(proposal.name), proposal.value, Action::Set, proposal.origin, proposal.reason});
  ours_.insert_or_assign(std::string(proposal.name), job::fnv1a(proposal.value));
}

void PatchBuilder::replace(const Proposal& proposal, const std::string& users) {
  set(proposal);
  if (facts_.local_rank == 0 || (facts_.local_rank == 1 && users == proposal.firsts)) {
    patch_.task_warnings.push_back(
        fmt::format("{}: {}: was set before srun for all tasks; {} is used here ({}); try unsetting {} before srun",
                    proposal.name, users, proposal.value, proposal.reason, proposal.name));
  }
}

void PatchBuilder::propose(const Proposal& proposal) {
  const bool ranks_are_slurms = facts_.job_id && facts_.is_slurms_step && facts_.world_size > 1;
  if (const auto value = users(proposal.name)) {
    if (proposal.firsts && ranks_are_slurms && *value != proposal.value) {
      replace(proposal, *value);
      return;
    }
    keep(proposal.name, *value, true);
    if (*value != proposal.value && proposal.setting == "variables") {
      warn(fmt::format("{}: is kept because you set it; the setting variables has another value", proposal.name));
    } else if (*value != proposal.value) {
      warn(fmt::format("{}: {}: is kept because you set it; without it rollcall would set {} ({})", proposal.name,
                       *value, proposal.value, proposal.reason));
    }
    return;
  }
  if (!proposal.setting.empty()) {
    if (const auto value = inherited(proposal.name, proposal.setting)) {
      keep(proposal.name, *value, false);
      return;
    }
  }
  set(proposal);
}

void PatchBuilder::remove_stale() {
  for (const auto& [name, hash] : outer_) {
    const std::optional<std::string> value = user_.get(name);
    if (!value || job::fnv1a(*value) != hash || patch_.find(name) != nullptr) {
      continue;
    }
    if (same_step_) {
      keep(name, *value, false);
    } else {
      patch_.changes.push_back({name, "", Action::Unset, "rollcall",
                                fmt::format("left over from step {}", user_.get(env::kStep).value_or("unknown"))});
    }
  }
}

void PatchBuilder::remove_outer_launcher_values() {
  static const std::map<std::string_view, std::string_view> kSigns{
      {env::kTorchElasticRunId, "torchrun"}, {env::kOmpiRank, "mpirun"}, {env::kHydraLocalRank, "mpiexec"}};
  for (const std::string& name : job::emptied_variables(user_)) {
    if (patch_.find(name) == nullptr) {
      patch_.changes.push_back({name, "", Action::Unset, "rollcall", "was set before this step began"});
    }
    const auto launcher = kSigns.find(name);
    if (launcher != kSigns.end()) {
      warn(
          fmt::format("{}: was set before this step by {} around sbatch, salloc or srun; its ranks are ignored; try "
                      "unsetting {} there",
                      name, launcher->second, name));
    }
  }
}

EnvPatch PatchBuilder::finish() && {
  remove_stale();
  remove_outer_launcher_values();
  patch_.changes.push_back({std::string(env::kStep), step_, Action::Set, "rollcall", "the step of these values"});
  patch_.changes.push_back({std::string(env::kMarker), job::to_text(ours_), Action::Set, "rollcall",
                            "lists these variables, with a hash of each value"});
  return std::move(patch_);
}

bool keep_known(std::string_view name, std::string_view setting, const Inputs& inputs, PatchBuilder& patch) {
  if (const auto value = patch.users(name)) {
    patch.keep(name, *value, true);
    return true;
  }
  const bool head_is_known = !inputs.facts.head_host.empty() && inputs.facts.head_known_to_all;
  const auto value = head_is_known ? patch.inherited(name, setting) : patch.enclosing(name);
  if (value && patch.same_world()) {
    patch.keep(name, *value, false);
    return true;
  }
  return false;
}

}  // namespace rollcall::resolve

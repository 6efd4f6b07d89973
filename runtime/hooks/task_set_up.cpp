#include "runtime/hooks/task_set_up.h"

#include <utility>

#include "runtime/base/this_process.h"
#include "runtime/step/resolved_step.h"
#include "runtime/storage/folders.h"

namespace rollcall::hooks {

network::ResolvedName TaskSetUp::look_up(const std::string& name) {
  limit_.doing("looks up " + name);
  return ask_for(name);
}

Result<resolve::EnvPatch> TaskSetUp::run(const settings::LaunchLayers& layers) {
  limit_.doing("looks up the user");
  task_ = with_home_and_user(std::move(task_));
  limit_.doing("reads the settings");
  ASSIGN_OR_RETURN(settings_, settings::load_launch_settings(task_, layers));
  limit_.set_patience(settings_->task_timeout);
  limit_.doing("asks Slurm for the step's layout");
  ASSIGN_OR_RETURN(job::JobFacts facts, find_facts(*settings_));
  facts_ = std::move(facts);
  facts_->sees_accelerator = sees_accelerator();
  network_ =
      step::observe_network(*facts_, *settings_, task_, [this](const std::string& name) { return look_up(name); });
  ASSIGN_OR_RETURN(resolve::EnvPatch patch, step::resolve_here(*facts_, *settings_, *network_, task_));
  if (const Result<void> checked = step::check_head_is_known(*facts_, patch); !checked) {
    return head_unknown(checked.error());
  }
  limit_.doing("creates the folders of caches and looks for old files");
  RETURN_IF_ERROR(storage::prepare_folders(*facts_, patch, *settings_, task_));
  return patch;
}

}  // namespace rollcall::hooks

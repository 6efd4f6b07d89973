#include "trainer/train/run_folders.h"

#include "runtime/settings/values.h"
#include "trainer/checkpoint/background/stage.h"

namespace rollcall::train {
namespace {

/// A job name as one part of a path.
std::string folder_name(const Environment& environment) {
  std::string name = environment.get_non_empty("SLURM_JOB_NAME").value_or("run");
  for (char& c : name) {
    if (c == '/' || static_cast<unsigned char>(c) <= ' ') {
      c = '_';
    }
  }
  return name == "." || name == ".." ? "run" : name;
}

}  // namespace

Result<RunFolders> choose_run_folders(const settings::Settings& settings, const Environment& environment) {
  RunFolders folders;
  const std::optional<std::string> scratch = environment.get_non_empty("SCRATCH");
  const std::string base = scratch.value_or(".") + "/rollcall/" + folder_name(environment);
  const auto chosen = [&](const char* setting, const std::string& otherwise) -> Result<std::string> {
    const std::string& text = settings.text(setting);
    return text.empty() ? Result<std::string>(otherwise) : settings::expand_path(text, environment, setting);
  };
  Result<std::string> checkpoints = chosen("checkpoint-dir", base + "/checkpoints");
  if (!checkpoints) {
    return checkpoints.error();
  }
  folders.checkpoints = *std::move(checkpoints);
  const Result<std::string> stage = chosen("checkpoint-stage", "");
  if (!stage) {
    return stage.error();
  }
  folders.stage = stage->empty() ? "" : checkpoint::background::stage_folder(*stage, folders.checkpoints);
  const bool named = !settings.text("checkpoint-dir").empty();
  Result<std::string> run = chosen("run-dir", named ? folders.checkpoints : base);
  if (!run) {
    return run.error();
  }
  folders.run = *std::move(run);
  if (!scratch && !named) {
    folders.warnings.push_back("SCRATCH is not set: checkpoints go to " + folders.checkpoints +
                               " below the current folder; set SCRATCH or --checkpoint-dir");
  }
  return folders;
}

}  // namespace rollcall::train

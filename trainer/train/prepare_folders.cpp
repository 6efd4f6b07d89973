#include "trainer/train/prepare_folders.h"

#include <fmt/format.h>
#include <filesystem>

#include "runtime/settings/values.h"
#include "runtime/storage/folders.h"
#include "runtime/storage/purge_age.h"
#include "trainer/checkpoint/background/stage.h"
#include "trainer/checkpoint/format/folder.h"

namespace rollcall::train {
namespace {

namespace fs = std::filesystem;

Error unusable_stage(const settings::Settings& settings, const std::string& reason, const std::string& action) {
  return fail("--checkpoint-stage", settings.text("checkpoint-stage"), reason, action, ExitCode::CannotCreate);
}

Result<std::string> prepare_stage(const settings::Settings& settings, const RunFolders& folders) {
  const storage::FolderObjection objection = storage::make_own_folder(fs::absolute(folders.stage).string());
  if (!objection.reason.empty()) {
    return unusable_stage(settings, objection.reason, "another folder of this node");
  }
  if (settings.text("resume") != "auto") {
    checkpoint::background::discard_left_over(folders.stage);
    return std::string();
  }
  const auto published = checkpoint::background::publish_left_over(folders.stage, folders.checkpoints);
  if (!published) {
    return published.error();
  }
  return published->has_value() ? fmt::format("the checkpoint of step {} was still in {} and is now in {}", **published,
                                              folders.stage, folders.checkpoints)
                                : std::string();
}

bool lies_below(const std::string& path, const std::string& folder) {
  std::error_code ignored;
  const fs::path relative =
      fs::weakly_canonical(path, ignored).lexically_relative(fs::weakly_canonical(folder, ignored));
  return !relative.empty() && *relative.begin() != "..";
}

}  // namespace

Result<std::string> prepare_folders(const settings::Settings& settings, const RunFolders& folders, const World& world) {
  if (!folders.stage.empty() && world.num_nodes > 1) {
    return unusable_stage(settings, "ranks on several nodes write one file, and have no folder of one node in common",
                          "leaving it out: --checkpoint-mode=async writes from memory");
  }
  if (world.rank != 0) {
    return std::string();
  }
  if (Result<void> prepared = checkpoint::format::prepare_folder(folders.checkpoints); !prepared) {
    return prepared.error();
  }
  return folders.stage.empty() ? std::string() : prepare_stage(settings, folders);
}

std::optional<std::string> checkpoint_purge_warning(const settings::Settings& launch, const Environment& environment,
                                                    const std::string& folder) {
  const auto days = static_cast<std::uint32_t>(launch.integer("scratch.purge-days"));
  const Result<std::string> scratch =
      settings::expand_path(launch.text("scratch.folder"), environment, "scratch.folder");
  if (days == 0 || !scratch || scratch->empty() || !lies_below(folder, *scratch)) {
    return std::nullopt;
  }
  const Result<storage::PurgeAge> age = storage::purge_age(folder, days, storage::kAtLaunch);
  if (!age || !age->days_left || *age->days_left > static_cast<double>(launch.integer("scratch.warn-days"))) {
    return std::nullopt;
  }
  return fmt::format(
      "{} will be deleted by the site in {:.0f} days: what lies in {} unused for {} days goes; copy what "
      "you want to keep to another file system",
      age->oldest, *age->days_left, *scratch, days);
}

}  // namespace rollcall::train

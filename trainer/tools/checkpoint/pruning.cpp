#include "trainer/tools/checkpoint/pruning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "trainer/checkpoint/format/reader.h"
#include "trainer/storage/file.h"
#include "trainer/tools/checkpoint/stored_file.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint::format;

/// Reads a usable checkpoint whole. One that is not sound is usable no longer.
void verify(PrunedFile& pruned, metrics::WorkProgress& progress) {
  SeenFile& file = pruned.file;
  const auto opened = StoredFile::open(file.path);
  const auto damaged =
      opened ? opened->damaged(format::default_threads(), progress) : Result<std::vector<std::string>>(opened.error());
  progress.end();
  if (!damaged) {
    const bool is_damage = damaged.error().exit_code == ExitCode::BadData;
    file.state = is_damage ? format::FileState::Damaged : format::FileState::Unreadable;
    file.reason = damaged.error().reason;
  } else if (!damaged->empty()) {
    file.state = format::FileState::Damaged;
    file.reason = fmt::format("{} of its tensors and values damaged", damaged->size());
  }
  pruned.verified = is_usable_checkpoint(file);
}

/// best.h5 would lead nowhere.
void remove_link_to(const SeenFile& removed) {
  const fs::path link = fs::path(removed.path).parent_path() / "best.h5";
  std::error_code ignored;
  if (removed.is_best && fs::is_symlink(link, ignored) && !fs::exists(link, ignored)) {
    ::unlink(link.c_str());
  }
}

/// Removes a file that is still the one that was looked at: a training may be at work in the folder.
Result<void> remove_file(PrunedFile& pruned) {
  const SeenFile& file = pruned.file;
  const auto now = DirectoryEntry::at(file.path);
  if (!now || !now->is_same_file_as(file.entry)) {
    pruned.fate = {false, now ? "was replaced meanwhile" : "was removed meanwhile"};
    return {};
  }
  if (::unlink(file.path.c_str()) != 0 && errno != ENOENT) {
    return fail("checkpoint", file.path, "cannot be removed: " + errno_text(errno), "a folder that you may write to",
                ExitCode::InputOutput);
  }
  pruned.removed = true;
  remove_link_to(file);
  return {};
}

}  // namespace

void decide(Pruning& pruning) {
  std::vector<SeenFile> files;
  for (const PrunedFile& pruned : pruning.files) {
    files.push_back(pruned.file);
  }
  const std::vector<Fate> fates = fates_of(files, pruning.rules);
  for (std::size_t i = 0; i < fates.size(); ++i) {
    pruning.files[i].fate = fates[i];
  }
}

void verify_newest(Pruning& pruning, metrics::WorkProgress& progress) {
  std::int64_t sound = 0;
  for (auto pruned = pruning.files.rbegin(); pruned != pruning.files.rend() && sound < pruning.rules.keep_last;
       ++pruned) {
    if (is_usable_checkpoint(pruned->file)) {
      verify(*pruned, progress);
      sound += pruned->verified ? 1 : 0;
    }
  }
}

Result<void> remove_files(Pruning& pruning) {
  bool any = false;
  for (PrunedFile& pruned : pruning.files) {
    if (!pruned.fate.goes) {
      continue;
    }
    if (Result<void> removed = remove_file(pruned); !removed) {
      return removed;
    }
    any = any || pruned.removed;
  }
  if (any && !storage::sync_folder_of(pruning.files.front().file.path)) {
    return fail("checkpoint", pruning.folder, "cannot be written to the device: " + errno_text(errno),
                "having the file system checked", ExitCode::InputOutput);
  }
  return {};
}

}  // namespace rollcall::checkpoint_tool

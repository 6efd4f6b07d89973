#include "trainer/tools/checkpoint/checkpoint_listing.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <variant>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/tools/checkpoint/checkpoint_file.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint::format;

void add_content(ListedFile& listed) {
  const auto file = CheckpointFile::open(listed.path);
  if (!file) {
    return;
  }
  listed.created = file->info().created;
  if (!listed.step) {
    listed.step = file->value<std::int64_t>("/progress/global_step");
  }
  listed.epoch = file->value<std::int64_t>("/progress/epoch");
  if (const auto best = file->value<std::string>(format::kBestPath)) {
    listed.best = format::best_from_json(*best);
  }
  const auto best_step = file->value<std::int64_t>("/progress/best_step");
  if (best_step.value_or(-1) >= 0) {
    listed.best_metric = file->value<double>("/progress/best_metric");
  }
}

ListedFile listed_file(const std::string& path) {
  std::error_code ignored;
  ListedFile listed;
  listed.path = path;
  listed.entry = DirectoryEntry::at(path).value_or(DirectoryEntry());
  const format::FileStatus status = format::examine(path, format::VerifyLevel::Metadata);
  listed.state = status.state;
  listed.reason = status.reason;
  const auto bytes = fs::file_size(path, ignored);
  listed.bytes = ignored ? 0 : bytes;
  if (const auto name = format::parse_file_name(fs::path(path).filename().string())) {
    listed.step = name->step;
  }
  if (status.state == format::FileState::Committed || status.state == format::FileState::Superseded) {
    add_content(listed);
  }
  return listed;
}

bool is_listed(const fs::directory_entry& entry) {
  std::error_code ignored;
  const std::string name = entry.path().filename().string();
  return format::parse_file_name(name) || (name.ends_with(".h5") && !entry.is_symlink(ignored));
}

}  // namespace

std::optional<DirectoryEntry> DirectoryEntry::at(const std::string& path) {
  struct stat facts {};
  if (::lstat(path.c_str(), &facts) != 0) {
    return std::nullopt;
  }
  constexpr std::int64_t kNanoseconds = 1'000'000'000;
  return DirectoryEntry{.inode = facts.st_ino,
                        .modified = facts.st_mtim.tv_sec * kNanoseconds + facts.st_mtim.tv_nsec,
                        .links = facts.st_nlink,
                        .is_regular = S_ISREG(facts.st_mode),
                        .owner = facts.st_uid,
                        .is_own = rollcall::is_own(facts, folder_of(path))};
}

Result<std::vector<ListedFile>> list_files(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return fail("checkpoint", path, errno_text(error ? error.value() : ENOENT),
                "naming the folder of the checkpoints, such as $SCRATCH/rollcall/NAME/checkpoints", ErrorKind::NoInput);
  }
  if (!fs::is_directory(status)) {
    return std::vector{listed_file(path)};
  }
  std::vector<ListedFile> listed;
  fs::directory_iterator entry(path, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (is_listed(*entry)) {
      listed.push_back(listed_file(entry->path().string()));
    }
  }
  if (error) {
    return fail("checkpoint", path, errno_text(error.value()), "checking the permissions of the folder",
                ErrorKind::NoInput);
  }
  const fs::path best = fs::read_symlink(fs::path(path) / "best.h5", error);
  for (ListedFile& file : listed) {
    file.is_best = !error && fs::path(file.path).filename() == best.filename();
  }
  std::ranges::sort(listed, [](const ListedFile& a, const ListedFile& b) {
    return std::tuple(-a.step.value_or(-1), a.path) < std::tuple(-b.step.value_or(-1), b.path);
  });
  return listed;
}

}  // namespace rollcall::checkpoint_tool

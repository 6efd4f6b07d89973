#include "trainer/checkpoint/format/folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "runtime/base/text.h"
#include "trainer/checkpoint/format/durable_file.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/writer.h"

namespace rollcall::checkpoint::format {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kSuffix = ".h5";
constexpr std::string_view kDamaged = ".damaged";

/// The step in "step-00000123.h5" followed by `ending`.
std::optional<std::int64_t> step_of(std::string_view name, std::string_view ending) {
  if (!name.starts_with(kPrefix) || !name.ends_with(ending)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(std::min(ending.size(), name.size()));
  if (!name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  name.remove_suffix(kSuffix.size());
  return parse_integer<std::int64_t>(name);
}

std::vector<ListedCheckpoint> list_with_ending(const std::string& folder, std::string_view ending) {
  std::vector<ListedCheckpoint> found;
  std::error_code ignored;
  for (fs::directory_iterator entry(folder, ignored), end; !ignored && entry != end; entry.increment(ignored)) {
    if (const auto step = step_of(entry->path().filename().string(), ending)) {
      found.push_back({*step, entry->path().string()});
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.step > b.step; });
  return found;
}

std::string file_name(const std::string& path) { return fs::path(path).filename().string(); }

/// Renames a damaged checkpoint; the text tells what happened to it.
std::string set_aside(const ListedCheckpoint& checkpoint, const Error& error) {
  const std::string aside = checkpoint.path + std::string(kDamaged);
  const bool renamed = std::rename(checkpoint.path.c_str(), aside.c_str()) == 0 || errno == ENOENT;  // by another rank
  return fmt::format("{} {}; {}", checkpoint.path, error.reason,
                     renamed ? "it is now called " + file_name(aside) : "it cannot be renamed: " + errno_text(errno));
}

/// Another rank may have set aside what this one did not even see: the warnings of all ranks tell the same.
void add_warnings_of_other_ranks(const std::string& folder, std::int64_t used_step,
                                 std::vector<std::string>& warnings) {
  for (const ListedCheckpoint& damaged : list_with_ending(folder, kDamaged)) {
    const std::string name = file_name(damaged.path);
    const auto tells = [&](const std::string& warning) { return warning.find(name) != std::string::npos; };
    if (damaged.step > used_step && std::none_of(warnings.begin(), warnings.end(), tells)) {
      warnings.push_back(damaged.path + " is newer and was found damaged");
    }
  }
}

void point_best_to(const std::string& folder, std::int64_t best_step) {
  const std::string name = checkpoint_name(best_step);
  const std::string link = (fs::path(folder) / "best.h5").string();
  const std::string temporary = temporary_name(link);
  if (!fs::exists(fs::path(folder) / name)) {
    return;
  }
  ::unlink(temporary.c_str());
  if (::symlink(name.c_str(), temporary.c_str()) == 0 && std::rename(temporary.c_str(), link.c_str()) != 0) {
    ::unlink(temporary.c_str());
  }
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("{}{:08}{}", kPrefix, step, kSuffix); }

std::vector<ListedCheckpoint> list_checkpoints(const std::string& folder) { return list_with_ending(folder, ""); }

Result<void> prepare_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    return fail("--checkpoint-dir", folder, "cannot be written to: " + errno_text(error.value()),
                "making it writable or naming another folder", ExitCode::CannotCreate);
  }
  return {};
}

Result<std::optional<UsableCheckpoint>> find_latest_usable(const std::string& folder) {
  std::vector<std::string> warnings;
  for (const ListedCheckpoint& checkpoint : list_checkpoints(folder)) {
    auto loaded = read_checkpoint(checkpoint.path);
    if (loaded) {
      add_warnings_of_other_ranks(folder, checkpoint.step, warnings);
      return std::optional(UsableCheckpoint{checkpoint.path, std::move(*loaded), std::move(warnings)});
    }
    const bool vanished = loaded.error().exit_code == ExitCode::NoInput && !fs::exists(checkpoint.path);
    if (vanished) {
      continue;  // another rank found it damaged
    }
    if (loaded.error().exit_code != ExitCode::BadData) {
      return loaded.error();
    }
    warnings.push_back(set_aside(checkpoint, loaded.error()));
  }
  const auto damaged = list_with_ending(folder, kDamaged);
  if (!damaged.empty() || !warnings.empty()) {
    return fail("--resume", folder,
                fmt::format("holds only damaged checkpoints ({} of them)", std::max(damaged.size(), warnings.size())),
                "--resume=never to start afresh, or another --checkpoint-dir", ExitCode::BadData);
  }
  return std::optional<UsableCheckpoint>();
}

void tidy_folder(const std::string& folder, std::int64_t step, std::int64_t best_step, const Retention& retention) {
  point_best_to(folder, best_step);
  std::int64_t kept = 0;
  for (const ListedCheckpoint& checkpoint : list_checkpoints(folder)) {
    if (checkpoint.step > step) {
      static_cast<void>(std::rename(checkpoint.path.c_str(), (checkpoint.path + ".superseded").c_str()));
    } else if (kept < std::max<std::int64_t>(retention.keep_last, 1)) {
      ++kept;
    } else if (checkpoint.step != best_step) {
      ::unlink(checkpoint.path.c_str());
    }
  }
  remove_stale_temporaries(folder);
  static_cast<void>(sync_folder(folder));
}

}  // namespace rollcall::checkpoint::format

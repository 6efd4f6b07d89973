#include "trainer/checkpoint_tool/seen_file.h"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <variant>

#include "trainer/checkpoint/format/file_name.h"
#include "trainer/checkpoint_tool/stored_file.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace fs = std::filesystem;
namespace format = checkpoint::format;

template <typename Number>
std::optional<Number> number_of(const StoredFile& file, const char* path) {
  const auto found = file.values().find(path);
  const auto* const number = found == file.values().end() ? nullptr : std::get_if<Number>(&found->second);
  return number == nullptr ? std::nullopt : std::optional(*number);
}

void add_content(SeenFile& seen) {
  const auto file = StoredFile::open(seen.path);
  if (!file) {
    return;
  }
  seen.created = file->info().created;
  if (!seen.step) {
    seen.step = number_of<std::int64_t>(*file, "/progress/global_step");
  }
  seen.epoch = number_of<std::int64_t>(*file, "/progress/epoch");
  const auto best_step = number_of<std::int64_t>(*file, "/progress/best_step");
  if (best_step.value_or(-1) >= 0) {
    seen.best_step = best_step;
    seen.best_metric = number_of<double>(*file, "/progress/best_metric");
  }
}

SeenFile look_at_file(const std::string& path) {
  std::error_code ignored;
  const format::FileStatus status = format::examine(path, format::VerifyLevel::Metadata);
  SeenFile seen;
  seen.path = path;
  seen.state = status.state;
  seen.reason = status.reason;
  const auto bytes = fs::file_size(path, ignored);
  seen.bytes = ignored ? 0 : bytes;
  if (const auto name = format::parse_file_name(fs::path(path).filename().string())) {
    seen.step = name->step;
  }
  if (status.state == format::FileState::Committed || status.state == format::FileState::Superseded) {
    add_content(seen);
  }
  return seen;
}

bool is_listed(const fs::directory_entry& entry) {
  std::error_code ignored;
  const std::string name = entry.path().filename().string();
  return format::parse_file_name(name) || (name.ends_with(".h5") && !entry.is_symlink(ignored));
}

}  // namespace

Result<std::vector<SeenFile>> look_at(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return fail("ls", path, errno_text(error ? error.value() : ENOENT), "the folder that --checkpoint-dir named",
                ExitCode::NoInput);
  }
  if (!fs::is_directory(status)) {
    return std::vector{look_at_file(path)};
  }
  std::vector<SeenFile> seen;
  fs::directory_iterator entry(path, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    if (is_listed(*entry)) {
      seen.push_back(look_at_file(entry->path().string()));
    }
  }
  if (error) {
    return fail("ls", path, errno_text(error.value()), "a folder that you may read", ExitCode::NoInput);
  }
  const fs::path best = fs::read_symlink(fs::path(path) / "best.h5", error);
  for (SeenFile& file : seen) {
    file.is_best = !error && fs::path(file.path).filename() == best.filename();
  }
  std::ranges::sort(seen, [](const SeenFile& a, const SeenFile& b) {
    return std::tuple(-a.step.value_or(-1), a.path) < std::tuple(-b.step.value_or(-1), b.path);
  });
  return seen;
}

}  // namespace rollcall::checkpoint_tool

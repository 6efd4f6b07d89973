#include "trainer/data/sources/source_indices.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/small_file.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/file.h"

namespace rollcall::data {
namespace {

std::int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Returns whether an index can be trusted, since it contains the labels: a file of this user or of root that nobody
/// else may write.
bool is_ours(const storage::File& file) {
  struct stat facts {};
  return ::fstat(file.descriptor(), &facts) == 0 && S_ISREG(facts.st_mode) && is_own(facts) &&
         (facts.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

bool stamps_match(const SampleIndex& index) {
  const std::vector<FileStamp>& stamps = index.about().stamps;
  return std::all_of(stamps.begin(), stamps.end(),
                     [](const FileStamp& stamp) { return file_stamp(stamp.path) == stamp; });
}

/// Removes temporary files of killed writers. Failure is harmless.
void remove_left_overs(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path kept(path);
  const std::string begin = kept.filename().string() + ".";
  constexpr std::int64_t kDay = 86'400'000'000'000;
  std::error_code ignored;
  for (const fs::path& file : entries_of(kept.parent_path())) {
    if (file.filename().string().starts_with(begin) && file_stamp(file.string()).modified < now() - kDay) {
      fs::remove(file, ignored);
    }
  }
}

Error not_kept(const std::string& path, int error_number) {
  return fail("--index-dir", path, "cannot be written: " + errno_text(error_number),
              what_to_try(error_number, "choosing another --index-dir"), ErrorKind::CannotCreate);
}

}  // namespace

std::string index_path(const std::string& folder, const std::string& source) {
  // Two sources with one name would only evict each other's index: read_index() compares the whole text.
  return fmt::format("{}/{:08x}-{}-{}.index", folder, storage::crc32c(std::as_bytes(std::span(source))), source.size(),
                     ::geteuid());
}

std::optional<SampleIndex> read_index(const std::string& path, const std::string& source) {
  const storage::File file(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  if (!file || !is_ours(file)) {
    return std::nullopt;
  }
  const auto size = file.regular_size();
  auto memory = size && *size > 0 ? storage::SharedMemory::make(*size) : std::nullopt;
  if (!memory || file.read_at(memory->writable(), 0) != *size) {
    return std::nullopt;
  }
  std::optional<SampleIndex> index = SampleIndex::from(*std::move(memory));
  return index && index->about().source == source && stamps_match(*index) ? std::move(index) : std::nullopt;
}

Result<void> write_index(const std::string& path, const SampleIndex& index, std::int64_t began) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const std::vector<FileStamp>& stamps = index.about().stamps;
  const bool changing = std::any_of(stamps.begin(), stamps.end(), [&](const FileStamp& stamp) {
    return std::max(stamp.modified, stamp.changed) > began - kSecond;
  });
  if (changing || !stamps_match(index)) {
    return {};
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  remove_left_overs(path);
  const OpenedOutput unfinished = create_beside(path, O_WRONLY, 0644);
  const storage::File file(unfinished.descriptor);
  if (!file) {
    return not_kept(path, unfinished.error_number);
  }
  if (!file.write_at(index.memory().bytes(), 0) || !file.sync(storage::Cached::Keep) ||
      std::rename(unfinished.path.c_str(), path.c_str()) != 0) {
    const int failed = errno;
    ::unlink(unfinished.path.c_str());
    return not_kept(path, failed);
  }
  return {};
}

SourceIndices::SourceIndices(std::string folder) : folder_(std::move(folder)), began_(now()) {}

Result<SampleIndex> SourceIndices::get_or_make(const std::string& source,
                                               const std::function<Result<SampleIndex>()>& make) {
  if (const auto known = indices_.find(source); known != indices_.end()) {
    return known->second;
  }
  const std::string path = folder_.empty() ? "" : index_path(folder_, source);
  if (std::optional<SampleIndex> kept = path.empty() ? std::nullopt : read_index(path, source)) {
    warn_of(*kept);
    indices_.emplace(source, *kept);
    return *std::move(kept);
  }
  ASSIGN_OR_RETURN(SampleIndex made, make());
  warn_of(made);
  indices_.emplace(source, made);
  if (const Result<void> kept = path.empty() ? Result<void>() : write_index(path, made, began_); !kept) {
    warn(kept.error().text());
  }
  return made;
}

void SourceIndices::warn_of(const SampleIndex& index) {
  if (!index.about().warning.empty()) {
    warn(index.about().warning);
  }
}

Error indexing_stopped(const std::string& source) {
  return fail("--data", source, "indexing was stopped", "looking for the reason in earlier messages",
              ErrorKind::Unavailable);
}

}  // namespace rollcall::data

#include "trainer/checkpoint/background/commit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/owned_file.h"
#include "trainer/checkpoint/format/block_file.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/format/writer.h"
#include "trainer/storage/crc.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::background {
namespace {

/// Returns the bytes of all tensors over all ranks.
std::uint64_t whole_bytes(const format::Content& content) {
  std::uint64_t bytes = 0;
  for (const format::TensorView& tensor : content.tensors) {
    std::uint64_t elements = 1;
    for (const std::int64_t size : tensor.shape) {
      elements *= static_cast<std::uint64_t>(size);
    }
    bytes += elements * format::dtype_size(tensor.dtype);
  }
  return bytes;
}

Result<void> make_ready(const std::string& folder, std::uint64_t bytes) {
  RETURN_IF_ERROR(format::prepare_folder(folder));
  format::remove_stale_temporaries(folder);  // before the check, because they may fill the disk
  const std::optional<format::FreeSpace> space = format::free_space_at(folder);
  return space ? format::check_free_space(folder, *space, bytes) : Result<void>();
}

Result<void> asked(const std::function<Result<void>()>& check_ownership) {
  return check_ownership ? check_ownership() : Result<void>();
}

/// Removes the checkpoints of a staging directory except that of step `kept`.
void remove_all_but(std::int64_t kept, const std::string& staged) {
  const auto listed = format::list_checkpoints(staged);
  for (const format::ListedCheckpoint& left : listed ? *listed : std::vector<format::ListedCheckpoint>()) {
    if (left.step != kept) {
      ::unlink(left.path.c_str());
    }
  }
}

/// Sets aside what another training left, when this one saves for the first time.
Result<void> give_way(const Destination& destination) {
  if (!destination.last_own_step) {
    return {};
  }
  Result<void> superseded = format::supersede(destination.folder, *destination.last_own_step);
  const bool cleared = destination.staging_cleared != nullptr && std::exchange(*destination.staging_cleared, true);
  if (superseded && !destination.staging_dir.empty() && !cleared) {
    discard_left_over(destination.staging_dir);
  }
  return superseded;
}

/// Does rank 0's part before anything is written.
Result<void> prepare(const Destination& destination, std::uint64_t bytes) {
  Result<void> ready = asked(destination.check_ownership);
  if (ready) {
    ready = make_ready(destination.folder, bytes);
  }
  if (ready) {
    ready = give_way(destination);
  }
  if (ready && !destination.staging_dir.empty()) {
    ready = make_ready(destination.staging_dir, bytes);
    if (!ready) {
      Error error = ready.error();
      error.setting = "--checkpoint-stage";
      if (error.kind == ErrorKind::InputOutput) {  // too little space
        error.action = "freeing space there, or setting --checkpoint-stage to another folder";
      }
      return error;
    }
  }
  return ready;
}

}  // namespace

Result<void> commit(const Destination& destination, const format::Content& content,
                    const format::WriterOptions& options, format::RankGroup& group) {
  const bool leads = group.rank() == 0;
  const bool stages = !destination.staging_dir.empty();
  const std::uint64_t bytes = whole_bytes(content);
  RETURN_IF_ERROR(format::agree(group, leads ? prepare(destination, bytes) : Result<void>()));
  const std::filesystem::path first(stages ? destination.staging_dir : destination.folder);
  format::WriterOptions in_folder = options;
  if (!stages) {
    in_folder.before_rename = destination.check_ownership;
  }
  Result<void> written =
      format::write_checkpoint((first / format::checkpoint_name(destination.step)).string(), content, in_folder, group);
  if (written && stages && leads) {
    remove_all_but(destination.step,
                   destination.staging_dir);  // files that could not be copied; the new one is more recent
  }
  if (written && stages) {
    written = format::agree(group, leads ? publish(destination.staging_dir, destination.folder, destination.step,
                                                   destination.check_ownership)
                                         : Result<void>());
  }
  if (written && leads && asked(destination.check_ownership)) {
    format::tidy_folder(destination.folder, destination.step, destination.best_step, destination.retention);
  }
  if (written) {
    // The ranks wait here, and not elsewhere, if rank 0's file system does not respond. The file is written in any
    // case.
    static_cast<void>(format::agree(group, {}));
  }
  return written;
}

namespace {

namespace fs = std::filesystem;

/// Copies a whole file to a new one, which is on the device on return.
Result<void> copy_file(const std::string& from, const std::string& to) {
  constexpr std::size_t kBlock = std::size_t{8} << 20;
  const storage::File source(from, O_RDONLY);
  const storage::File target(to, O_WRONLY | O_CREAT | O_EXCL, 0644);
  if (!source || !target) {
    return format::system_failure(source ? to : from, "cannot be opened", errno);
  }
  std::vector<std::byte> buffer(kBlock);
  for (std::uint64_t offset = 0;;) {
    const auto got = source.read_at(buffer, offset);
    if (!got) {
      return format::system_failure(from, "cannot be read", errno);
    }
    if (*got == 0) {
      break;
    }
    if (!target.write_at(std::span(buffer).first(*got), offset)) {
      return format::system_failure(to, "cannot be written", errno);
    }
    offset += *got;
  }
  return target.sync(storage::Cached::Drop) ? Result<void>()
                                            : format::system_failure(to, "cannot be written to the device", errno);
}

/// Returns the creation time as ISO 8601 in UTC, so that texts sort like times. Empty if the file cannot be read.
std::string time_made(const std::string& path) {
  const auto reader = format::CheckpointReader::open(path);
  return reader ? reader->info().created : "";
}

/// Removes the temporary file unless it was renamed.
class Temporary {
 public:
  explicit Temporary(std::string path) : path_(std::move(path)) { ::unlink(path_.c_str()); }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  ~Temporary() { ::unlink(path_.c_str()); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

std::string staging_folder(const std::string& stage, const std::string& folder) {
  std::error_code ignored;
  const std::string whole = fs::weakly_canonical(fs::absolute(folder), ignored).string();
  const std::uint32_t hash = storage::crc32c(std::as_bytes(std::span(whole)));
  return (fs::path(stage) / fmt::format("rollcall-{}-{:08x}", ::geteuid(), hash)).string();
}

Result<void> publish(const std::string& staged, const std::string& folder, std::int64_t step,
                     const std::function<Result<void>()>& check_ownership) {
  const std::string from = (fs::path(staged) / format::checkpoint_name(step)).string();
  const std::string path = (fs::path(folder) / format::checkpoint_name(step)).string();
  const Temporary temporary(format::temporary_name(path));
  RETURN_IF_ERROR(copy_file(from, temporary.path()));
  if (const Result<void> sound = format::verify_file(temporary.path(), format::VerifyLevel::Full); !sound) {
    return format::wrong_content(temporary.path(), sound.error().reason);
  }
  RETURN_IF_ERROR(asked(check_ownership));
  if (std::rename(temporary.path().c_str(), path.c_str()) != 0) {
    return format::rename_failure(path, errno);
  }
  if (!storage::sync_folder_of(path)) {
    return format::system_failure(path, "its folder cannot be written to the device", errno);
  }
  ::unlink(from.c_str());
  return {};
}

Result<LeftOver> publish_left_over(const std::string& staged, const std::string& folder) {
  const auto there = format::list_own_checkpoints(folder);  // this user does not resume from another user's
  const auto left_over = format::list_checkpoints(staged);
  if (!there || !left_over) {
    return there ? left_over.error() : there.error();
  }
  const std::int64_t newest_there = there->empty() ? -1 : there->front().step;
  const std::string made_there = there->empty() ? "" : time_made(there->front().path);
  LeftOver found;
  for (const format::ListedCheckpoint& left : *left_over) {
    const bool wanted = !found.step && !found.passed_over && left.step > newest_there &&
                        format::verify_file(left.path, format::VerifyLevel::Full);
    if (wanted && time_made(left.path) < made_there) {
      found.passed_over = left.step;
    } else if (wanted) {
      RETURN_IF_ERROR(publish(staged, folder, left.step));
      found.step = left.step;
    } else {
      ::unlink(left.path.c_str());
    }
  }
  format::remove_stale_temporaries(staged);
  return found;
}

void discard_left_over(const std::string& staged) {
  remove_all_but(-1, staged);
  format::remove_stale_temporaries(staged);
}

}  // namespace rollcall::checkpoint::background

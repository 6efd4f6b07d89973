#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/source.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {

/// Whose checkpoint may be opened. Whoever may write to a folder that a project shares can leave one there, which would
/// be the newest: what was found, and not named by the user, belongs to this user or to root (is_own()), the file and
/// the link that its name may be.
enum class Owner { Anyone, ThisUser };

/// A checkpoint opened for reading. open() believes nothing that it has not checked: seal, manifest, and that all data
/// sets lie in the file; it does not call the HDF5 library. Move only; all functions are thread-safe, and any number of
/// processes may read the same file.
///
/// Errors of all: NoInput where the file cannot be opened; BadData where it is damaged, unfinished or no checkpoint
/// (the reason names the data set); Mismatch where its format is newer than this reader, or it is not of the Owner that
/// was asked for, in which case nothing in it was looked at; InputOutput where the system fails to read.
class CheckpointReader final : public CheckpointSource {
 public:
  static Result<CheckpointReader> open(const std::string& path, Owner owner = Owner::Anyone);

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] const FileInfo& info() const { return manifest_.info; }
  /// All data sets in the order in which they were written, with shapes, types and checksums.
  [[nodiscard]] const std::vector<ManifestEntry>& datasets() const override { return manifest_.datasets; }
  [[nodiscard]] const ManifestEntry* find(std::string_view name) const override;

  /// Reads stretches of data sets, on up to `threads` threads. With VerifyLevel::Full every piece that a stretch
  /// touches is read whole and compared with its checksum, in buffers of at most 256 KiB a thread; otherwise bytes are
  /// taken as they are. All is there when it returns.
  [[nodiscard]] Result<void> read(std::span<const ReadRequest> requests, VerifyLevel level,
                                  std::size_t threads) const override;
  [[nodiscard]] Result<std::map<std::string, Value>> values() const override;

  /// Compares with the checksums, on up to `threads` threads.
  [[nodiscard]] Result<void> verify(VerifyLevel level, std::size_t threads) const;

 private:
  CheckpointReader() = default;
  [[nodiscard]] Result<void> read_manifest(std::span<const std::byte> seal);
  [[nodiscard]] Result<void> read_part(const ReadRequest& request, VerifyLevel level) const;
  [[nodiscard]] Result<void> verify_structure() const;
  [[nodiscard]] Error damaged(const std::string& reason) const;
  [[nodiscard]] Error unreadable(int error_number) const;

  std::string path_;
  std::uint64_t file_bytes_ = 0;
  storage::File file_;
  Manifest manifest_;
  std::map<std::string, std::size_t, std::less<>> number_of_;
  ManifestEntry own_entry_;  ///< of /manifest
  std::uint32_t structure_crc32c_ = 0;
};

/// How many threads verify and load a file at most: more do not make a disk faster.
[[nodiscard]] std::size_t default_threads();

/// Opens and verifies. Errors: see CheckpointReader.
[[nodiscard]] Result<void> verify_file(const std::string& path, VerifyLevel level);

}  // namespace rollcall::checkpoint::format

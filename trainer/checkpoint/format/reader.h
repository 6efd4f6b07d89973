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

/// The accepted owner of a checkpoint. Everyone who may write to a project's shared folder can leave one there, which
/// would be the newest. So a checkpoint that was found, and not named by the user, must belong to this user or to root
/// (is_own()), both the file and a link to it.
enum class Owner { Anyone, ThisUser };

/// A checkpoint opened for reading. open() checks everything that it uses: commit header, manifest, and that all data
/// sets are within the file. It does not call the HDF5 library. Move only; all functions are thread-safe, and any
/// number of processes may read the same file.
///
/// Errors of all: NoInput: the file cannot be opened; BadData: it is damaged, unfinished or not a checkpoint (the
/// reason names the data set); Mismatch: its format is newer than this reader, or it does not have the requested Owner,
/// in which case its content was not read; InputOutput: the system fails to read.
class CheckpointReader final : public CheckpointSource {
 public:
  static Result<CheckpointReader> open(const std::string& path, Owner owner = Owner::Anyone);

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  [[nodiscard]] const FileInfo& info() const { return manifest_.info; }
  /// Returns all data sets in the order in which they were written, with shapes, types and checksums.
  [[nodiscard]] const std::vector<ManifestEntry>& datasets() const override { return manifest_.datasets; }
  [[nodiscard]] const ManifestEntry* find(std::string_view name) const override;

  /// Reads ranges of data sets on up to `threads` threads. With VerifyLevel::Full each piece that a range touches is
  /// read whole and compared with its checksum, in buffers of at most 256 KiB for each thread. The data is complete on
  /// return.
  [[nodiscard]] Result<void> read(std::span<const ReadRequest> requests, VerifyLevel level,
                                  std::size_t threads) const override;
  [[nodiscard]] Result<std::map<std::string, Value>> values() const override;

  /// Compares with the checksums on up to `threads` threads.
  [[nodiscard]] Result<void> verify(VerifyLevel level, std::size_t threads) const;

 private:
  CheckpointReader() = default;
  [[nodiscard]] Result<void> read_manifest(std::span<const std::byte> header);
  [[nodiscard]] Result<void> read_part(const ReadRequest& request, VerifyLevel level) const;
  [[nodiscard]] Result<void> verify_structure() const;
  [[nodiscard]] Error damaged(const std::string& reason) const;
  [[nodiscard]] Error unreadable(int error_number) const;

  std::string path_;
  std::uint64_t file_bytes_ = 0;
  storage::File file_;
  Manifest manifest_;
  std::map<std::string, std::size_t, std::less<>> number_of_;
  ManifestEntry own_entry_;  ///< entry of /manifest
  std::uint32_t structure_crc32c_ = 0;
};

/// Returns the highest number of threads for verifying and loading a file: more do not make a disk faster.
[[nodiscard]] std::size_t default_threads();

/// Opens and verifies a file. Errors: see CheckpointReader.
[[nodiscard]] Result<void> verify_file(const std::string& path, VerifyLevel level);

}  // namespace rollcall::checkpoint::format

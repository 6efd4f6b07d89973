#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::checkpoint::format {

/// HDF5's part of a file: groups, data sets and attributes, which one rank creates with the HDF5 library. The library
/// keeps them in memory until finish(); meanwhile all ranks write the bytes of the data sets, which are allocated but
/// not filled, directly. Not thread-safe (see storage::Handle).
///
/// Errors: CannotCreate: the file cannot be created; InputOutput: it cannot be written.
class Hdf5Structures {
 public:
  /// Creates `path`, which must not exist and which only this user may ever write to, and sets the file offset of each
  /// data set.
  static Result<Hdf5Structures> create(const std::string& path, const FileInfo& info,
                                       std::vector<ManifestEntry>& datasets);

  /// Adds the checksums, which `manifest` now has, and /manifest; marks the file as complete and closes it. Returns the
  /// entry of /manifest.
  [[nodiscard]] Result<ManifestEntry> finish(const Manifest& manifest);

  /// Opens the finished file with the HDF5 library, as other programs do, and checks the offset of every data set.
  /// Errors (InputOutput): something is missing or damaged.
  [[nodiscard]] Result<void> check(const std::vector<ManifestEntry>& datasets) const;

 private:
  Hdf5Structures(std::string path, storage::File made, storage::Handle file);
  [[nodiscard]] Result<void> create_dataset(ManifestEntry& entry);
  [[nodiscard]] bool write_checksums(const std::vector<ManifestEntry>& datasets);
  [[nodiscard]] Error failure(const std::string& what) const;

  std::string path_;
  storage::File made_;  ///< the created file, under any name
  storage::Handle file_;
  storage::Handle link_creation_;
  storage::Handle dataset_creation_;
  /// Checksum attributes in the order of the data sets, open until their values are known.
  std::vector<storage::Handle> checksums_;
};

}  // namespace rollcall::checkpoint::format

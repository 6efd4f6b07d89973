#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::checkpoint::format {

/// HDF5's part of a file: groups, data sets and attributes, made by one rank with the HDF5 library. The library keeps
/// them in memory until finish(); meanwhile all ranks write the bytes of the data sets past it, which are allocated,
/// not filled. Not thread-safe (see storage::Handle).
///
/// Errors: CannotCreate where the file cannot be created, InputOutput where it cannot be written.
class Hdf5Structures {
 public:
  /// Creates `path`, which must not exist and nobody but this user may ever write to, and gives each data set its
  /// offset in the file.
  static Result<Hdf5Structures> create(const std::string& path, const FileInfo& info,
                                       std::vector<ManifestEntry>& datasets);

  /// Adds the checksums, which `manifest` now has, and /manifest itself; says that the file is complete, and closes it.
  /// Returns /manifest's own entry.
  [[nodiscard]] Result<ManifestEntry> finish(const Manifest& manifest);

  /// Opens the finished file with the HDF5 library, as other programs will, and finds every data set at its offset.
  /// Errors (InputOutput): something is missing or damaged.
  [[nodiscard]] Result<void> check(const std::vector<ManifestEntry>& datasets) const;

 private:
  Hdf5Structures(std::string path, storage::File made, storage::Handle file);
  [[nodiscard]] Result<void> create_dataset(ManifestEntry& entry);
  [[nodiscard]] bool write_checksums(const std::vector<ManifestEntry>& datasets);
  [[nodiscard]] Error failure(const std::string& what) const;

  std::string path_;
  storage::File made_;  ///< the file, by whichever name
  storage::Handle file_;
  storage::Handle link_creation_;
  storage::Handle dataset_creation_;
  std::vector<storage::Handle>
      checksums_;  ///< the attributes, in the order of the data sets; open until they are known
};

}  // namespace rollcall::checkpoint::format

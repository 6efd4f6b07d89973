#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/storage/hdf5_handle.h"

namespace rollcall::checkpoint::format {

/// A data set as it was found, its checksum being right.
struct StoredDataset {
  storage::Handle type;
  std::vector<std::int64_t> shape;
  std::optional<DType> dtype;  ///< set for tensors
  std::string state_dict_key;
  std::unique_ptr<std::byte[]> bytes;
};

/// The number or text(s) in a data set that is no tensor; nothing for kinds that this version does not know.
[[nodiscard]] std::optional<Value> value_of(const StoredDataset& dataset, std::span<const std::byte> bytes);

/// A checkpoint opened for reading. Errors of all functions: see reader.h.
class OpenFile {
 public:
  static Result<OpenFile> open(const std::string& path, Completeness completeness);

  [[nodiscard]] const FileInfo& info() const { return info_; }
  /// What /manifest lists, after its own checksum was checked.
  [[nodiscard]] Result<std::vector<ManifestEntry>> manifest() const;
  /// The data set, its size and checksum being those of `entry`.
  [[nodiscard]] Result<StoredDataset> read(const ManifestEntry& entry) const;

 private:
  OpenFile(std::string path, std::uint64_t size) : path_(std::move(path)), size_(size) {}
  [[nodiscard]] Result<void> read_attributes(Completeness completeness);
  [[nodiscard]] Error damaged(const std::string& reason) const;
  [[nodiscard]] Result<StoredDataset> read_bytes(const std::string& name, hid_t object,
                                                 std::uint64_t expected_bytes) const;

  std::string path_;
  std::uint64_t size_;
  storage::Handle file_;
  FileInfo info_;
};

}  // namespace rollcall::checkpoint::format

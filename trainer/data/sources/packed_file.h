#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/packed_format.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// An open packed file: its tables are in memory (40 bytes per sample), everything else is read when it is needed.
/// Thread-safe: it does not use the HDF5 library.
class PackedFile {
 public:
  /// Reads the tables and checks them and their checksums, but not the pictures. Errors: NoInput: cannot be read;
  /// BadData: truncated, damaged, in another format, or incomplete; Mismatch: newer than this program.
  [[nodiscard]] static Result<PackedFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const PackedLayout& layout() const { return layout_; }
  [[nodiscard]] const std::vector<PackedEntry>& entries() const { return entries_; }
  [[nodiscard]] const std::vector<std::string>& class_names() const { return class_names_; }

  [[nodiscard]] DataIdentity identity() const;

  /// Reads the picture and its tile lengths, as stored, into `buffer`, which only grows; valid until its next use.
  /// Errors: InputOutput: cannot be read; BadData: the checksum differs, or the file became shorter.
  [[nodiscard]] Result<std::span<const std::byte>> read(std::size_t index, std::vector<std::byte>& buffer) const;

  /// Returns the path that the picture had relative to the packed folder; empty if the file does not contain it.
  [[nodiscard]] std::string name(std::size_t index) const;

  /// Reads a whole HDF5 data set and verifies its checksum. Errors: those of read().
  [[nodiscard]] Result<std::vector<std::byte>> read_table(const DataSetLocation& place, const char* name) const;

  /// Returns "FILE: NAME" for messages.
  [[nodiscard]] std::string describe(std::size_t index) const;

 private:
  PackedFile(std::string path, storage::File file) : path_(std::move(path)), file_(std::move(file)) {}
  [[nodiscard]] Result<void> read_tables();
  [[nodiscard]] Result<void> read_class_names();

  std::string path_;
  storage::File file_;
  PackedLayout layout_;
  std::vector<PackedEntry> entries_;
  std::vector<std::string> class_names_;
};

/// A source that reads the pictures of one packed file. A fetch is one pread(2) and a checksum; repacked pictures come
/// with their tiling. docs/reference/dataset_format.md specifies the format.
class PackedSource : public ImageSource {
 public:
  explicit PackedSource(PackedFile file) : file_(std::move(file)) {}

  /// Opens a packed file. Errors: those of PackedFile::open(); BadData: it has no samples.
  [[nodiscard]] static Result<std::shared_ptr<const ImageSource>> open(const std::string& path);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(file_.entries().size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return file_.class_names(); }
  [[nodiscard]] DataIdentity identity() const override { return file_.identity(); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override {
    return file_.entries()[static_cast<std::size_t>(index)].label;
  }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  PackedFile file_;
};

}  // namespace rollcall::data

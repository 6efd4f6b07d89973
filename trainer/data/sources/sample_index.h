#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// The stat(2) result of a file or folder from which an index was made. If it differs now, the index is invalid.
struct FileStamp {
  std::string path;
  std::int64_t bytes = -1;    ///< negative if it does not exist
  std::int64_t modified = 0;  ///< nanoseconds since 1970, by the file system's clock
  std::int64_t changed = 0;
  std::uint64_t inode = 0;  ///< the device is not compared: nodes number the same file system differently
  std::int64_t entries =
      -1;  ///< number of entries of a folder whose times are unreliable (FUSE, squashfs, or no time); else -1

  friend bool operator==(const FileStamp&, const FileStamp&) = default;
};

/// Returns the current state of `path`. Links are followed.
[[nodiscard]] FileStamp file_stamp(const std::string& path);
/// Returns the current state of the file open as `descriptor`, even if `path` now names another file.
[[nodiscard]] FileStamp file_stamp(const std::string& path, int descriptor);

/// Identifies a dataset by counts and checksums (CRC-32C) of everything that a position in it depends on.
struct DataIdentity {
  std::int64_t images = 0;          ///< number of pictures; 0 if nothing is known
  std::int64_t class_names = -1;    ///< checksum of the class names, in the order of the labels
  std::int64_t labels = -1;         ///< checksum of the labels, in the order of the pictures
  std::int64_t picture_names = -1;  ///< checksum of the pictures' names, in their order; -1 if the source has no names
  std::int64_t parts = -1;          ///< checksum of the parts that a list names, in the order of the pictures; -1: none

  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

/// Returns the CRC-32C of the names, each followed by a NUL.
[[nodiscard]] std::int64_t checksum_of_names(const std::vector<std::string>& names);

/// The location, label and name of each picture of a folder tree or of tar shards, in 32 bytes and the name. It is one
/// block of memory, so that one rank makes it, other ranks receive it, and the ranks of a node share it. Copies share
/// the memory. Thread-safe: it is immutable.
class SampleIndex {
 public:
  /// One sample, in its memory layout.
  struct Entry {
    std::uint64_t offset = 0;  ///< offset of the picture in its shard; 0 in a tree
    std::uint64_t name_end =
        0;                    ///< end of its name in the concatenated names; it begins at the end of the previous name
    std::uint32_t bytes = 0;  ///< size of the picture in its shard; 0 in a tree, where it is unknown
    std::uint32_t shard = 0;
    std::uint32_t label = 0;
    std::uint32_t unused = 0;
  };

  /// What the index says about the source as a whole.
  struct About {
    std::string source;                    ///< unique name of the source
    std::vector<std::string> class_names;  ///< name of each label
    std::vector<FileStamp> stamps;
    std::string warning = {};  ///< a warning for users about the source; empty if there is none
  };

  /// Returns the index in `memory`; nothing if it is not a complete index of this format: wrong sizes, a wrong
  /// checksum, or an entry out of range.
  [[nodiscard]] static std::optional<SampleIndex> from(storage::SharedMemory memory);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  [[nodiscard]] const Entry& entry(std::int64_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  /// Returns the sample's name: the file's path in its tree, or the sample's key in its shard.
  [[nodiscard]] std::string_view name(std::int64_t i) const;
  [[nodiscard]] const About& about() const { return *about_; }
  /// Computes the identity, which reads all labels and names once.
  [[nodiscard]] DataIdentity identity() const;
  /// Returns the CRC-32C of the number of each picture's shard.
  [[nodiscard]] std::int64_t checksum_of_shards() const;
  [[nodiscard]] const storage::SharedMemory& memory() const { return *memory_; }

 private:
  SampleIndex() = default;

  std::shared_ptr<const storage::SharedMemory> memory_;
  std::span<const Entry> entries_;
  std::string_view names_;
  std::shared_ptr<const About> about_;
};

/// Builds a SampleIndex from samples in order.
class SampleIndexBuilder {
 public:
  /// Adds a sample. name_end of `entry` is ignored.
  void add(SampleIndex::Entry entry, std::string_view name);
  /// Appends all samples of another builder.
  void append(const SampleIndexBuilder& other);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const std::vector<SampleIndex::Entry>& entries() const { return entries_; }
  [[nodiscard]] std::string_view name(std::size_t i) const;
  /// Builds the index. Errors (Unavailable): out of memory.
  [[nodiscard]] Result<SampleIndex> finish(const SampleIndex::About& about) const;

 private:
  std::vector<SampleIndex::Entry> entries_;
  std::string names_;
};

}  // namespace rollcall::data

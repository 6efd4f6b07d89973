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

/// A file or folder that an index was made of, as stat(2) told of it then: where it is another now, the index is void.
struct Witness {
  std::string path;
  std::int64_t bytes = -1;    ///< negative: nothing is there
  std::int64_t modified = 0;  ///< nanoseconds since 1970, by the file system's clock
  std::int64_t changed = 0;
  std::uint64_t inode = 0;    ///< no device: nodes number one and the same file system differently
  std::int64_t entries = -1;  ///< of a folder whose times may say nothing: on FUSE and squashfs, or without a time

  friend bool operator==(const Witness&, const Witness&) = default;
};

/// What is true of `path` now; links are followed.
[[nodiscard]] Witness witness_of(const std::string& path);
/// What is true of the file that is open as `descriptor`, whatever bears its name by now.
[[nodiscard]] Witness witness_of(const std::string& path, int descriptor);

/// By which a data set is known again: numbers and checksums (CRC-32C) of what a position in it rests on.
struct DataIdentity {
  std::int64_t images = 0;          ///< 0: nothing is known
  std::int64_t class_names = -1;    ///< of the classes' names, in the labels' order
  std::int64_t labels = -1;         ///< of the pictures' labels, in their order
  std::int64_t picture_names = -1;  ///< of the pictures' names, in their order; -1: a source that does not tell

  friend bool operator==(const DataIdentity&, const DataIdentity&) = default;
};

/// CRC-32C of names with a NUL behind each.
[[nodiscard]] std::int64_t checksum_of_names(const std::vector<std::string>& names);

/// Where each picture of a folder tree or of tar shards is, its label and its name, in 32 bytes and the name: in one
/// piece of memory, so that one rank makes it, others receive it, and the ranks of a node share it. Copies share the
/// memory. Thread-safe: it does not change.
class SampleIndex {
 public:
  /// One sample; as it lies in memory.
  struct Entry {
    std::uint64_t offset = 0;    ///< of the picture's first byte in its shard; of a tree: 0
    std::uint64_t name_end = 0;  ///< among the names one after the other; it begins where the one before ends
    std::uint32_t bytes = 0;     ///< of the picture in its shard; of a tree: 0, unknown
    std::uint32_t shard = 0;
    std::uint32_t label = 0;
    std::uint32_t unused = 0;
  };

  /// What is not a sample's own.
  struct About {
    std::string source;                    ///< what was indexed: the same text, the same source
    std::vector<std::string> class_names;  ///< of the labels
    std::vector<Witness> witnesses;
    std::string warning = {};  ///< what people should know of the source, empty: nothing
  };

  /// Nothing where the memory holds no whole index of this format: wrong sizes, a wrong checksum, an entry that points
  /// elsewhere.
  [[nodiscard]] static std::optional<SampleIndex> from(storage::SharedMemory memory);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(entries_.size()); }
  [[nodiscard]] const Entry& entry(std::int64_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  /// Of a tree: the file's path in it; of a shard: the sample's key.
  [[nodiscard]] std::string_view name(std::int64_t i) const;
  [[nodiscard]] const About& about() const { return *about_; }
  /// Reads all labels and names once.
  [[nodiscard]] DataIdentity identity() const;
  [[nodiscard]] const storage::SharedMemory& memory() const { return *memory_; }

 private:
  SampleIndex() = default;

  std::shared_ptr<const storage::SharedMemory> memory_;
  std::span<const Entry> entries_;
  std::string_view names_;
  std::shared_ptr<const About> about_;
};

/// Collects samples in their order.
class SampleIndexBuilder {
 public:
  /// `entry` without its name_end.
  void add(SampleIndex::Entry entry, std::string_view name);
  /// All of another one's behind this one's.
  void append(const SampleIndexBuilder& other);
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] const std::vector<SampleIndex::Entry>& entries() const { return entries_; }
  [[nodiscard]] std::string_view name(std::size_t i) const;
  /// Errors (Unavailable): no memory.
  [[nodiscard]] Result<SampleIndex> finish(const SampleIndex::About& about) const;

 private:
  std::vector<SampleIndex::Entry> entries_;
  std::string names_;
};

}  // namespace rollcall::data

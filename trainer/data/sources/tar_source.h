#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/source_indices.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// A source of WebDataset shards: tar archives that contain, one after the other, KEY.jpg (or another of
/// kPictureEndings) and KEY.cls, the label as a decimal number from 0. read_shard() specifies how other members are
/// treated. Archives are indexed once, by their headers and the .cls members; pictures are read by pread(2). tar has no
/// checksums of content: damage is found only if decoding fails.
///
/// The names of the labels are those of names_of_labels().
class TarSource : public ImageSource {
 public:
  /// Opens the shards, which the caller has sorted and which are in one folder. Several are indexed at a time, unless
  /// `indices` already has them. Errors: those of read_shard() and names_of_labels(); BadData: no pictures;
  /// Mismatch: a shard has another size here than where another rank or an earlier run indexed it.
  [[nodiscard]] static Result<std::shared_ptr<const ImageSource>> open(const std::vector<std::string>& shards,
                                                                       SourceIndices& indices);

  /// In `index`, the names are the samples' keys, and the stamps are the shards and the files with class names.
  TarSource(std::vector<std::string> paths, std::vector<storage::File> files, SampleIndex index)
      : paths_(std::move(paths)), files_(std::move(files)), index_(std::move(index)) {}

  [[nodiscard]] std::int64_t size() const override { return index_.size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return index_.about().class_names; }
  [[nodiscard]] DataIdentity identity() const override { return index_.identity(); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return index_.entry(index).label; }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  /// Returns "SHARD: KEY".
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  std::vector<std::string> paths_;
  std::vector<storage::File> files_;
  SampleIndex index_;
};

/// Reads a picture of an archive into `buffer` and returns it. `name`: for messages. Errors: BadData: it is larger than
/// kMostPictureBytes, or the archive has become shorter; InputOutput. Thread-safe.
[[nodiscard]] Result<std::span<const std::byte>> read_member(const storage::File& archive, std::uint64_t offset,
                                                             std::uint64_t size,
                                                             const std::function<std::string()>& name,
                                                             FetchBuffer& buffer);

}  // namespace rollcall::data

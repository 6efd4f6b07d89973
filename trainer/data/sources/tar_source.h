#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/data/sources/image_source.h"
#include "trainer/data/sources/source_indices.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// WebDataset shards as a source: tar archives with, one after the other, KEY.jpg (or another of kPictureEndings) and
/// KEY.cls, the label as a decimal number from 0; read_shard() says what becomes of everything else. Archives are
/// indexed once, by their headers and the .cls members; pictures are read by pread(2). tar keeps no checksum of
/// content: damage shows only where decoding fails.
///
/// Names of the labels are those of class_names_of_labels().
class TarSource : public ImageSource {
 public:
  /// The shards, which are sorted by the caller, all in one folder; several are indexed at a time, unless `indices`
  /// have them. Errors: those of read_shard() and class_names_of_labels(); BadData: no picture at all; Mismatch: a
  /// shard that another rank or an earlier run indexed has another size here.
  [[nodiscard]] static Result<std::shared_ptr<const ImageSource>> open(const std::vector<std::string>& shards,
                                                                       SourceIndices& indices);

  /// `index`: names are the samples' keys; witnesses: the shards, and the files with class names.
  TarSource(std::vector<std::string> paths, std::vector<storage::File> files, SampleIndex index)
      : paths_(std::move(paths)), files_(std::move(files)), index_(std::move(index)) {}

  [[nodiscard]] std::int64_t size() const override { return index_.size(); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return index_.about().class_names; }
  [[nodiscard]] DataIdentity identity() const override { return index_.identity(); }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  /// "SHARD: KEY"
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  std::vector<std::string> paths_;
  std::vector<storage::File> files_;
  SampleIndex index_;
};

}  // namespace rollcall::data

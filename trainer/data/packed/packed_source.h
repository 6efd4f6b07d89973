#pragma once

#include <memory>
#include <utility>

#include "trainer/data/packed/packed_file.h"
#include "trainer/data/source.h"

namespace rollcall::data {

/// The pictures of one packed file as a source. A fetch is one pread(2) and a checksum; repacked pictures come with
/// their tiling. docs/dataset_format.md specifies the file.
class PackedSource : public ImageSource {
 public:
  explicit PackedSource(PackedFile file) : file_(std::move(file)) {}

  /// Errors: those of PackedFile::open(); BadData: no sample in it.
  [[nodiscard]] static Result<std::shared_ptr<const ImageSource>> open(const std::string& path);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(file_.entries().size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return file_.class_names(); }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  PackedFile file_;
};

}  // namespace rollcall::data

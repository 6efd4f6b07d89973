#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/sources/image_source.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// Pictures without labels, in order: files, and members of tar archives.
struct PictureList {
  struct Picture {
    std::string name;           ///< path of the file, or name of the member
    std::int64_t archive = -1;  ///< index in `archives`; -1: a file
    std::uint64_t offset = 0;   ///< of a member in its archive
    std::uint64_t bytes = 0;    ///< of a member
  };

  std::vector<std::string> archives;
  std::vector<Picture> pictures;
};

/// Lists the pictures of `inputs`, in their order:
///  - a folder: all files in it and below whose names end in one of kPictureEndings, sorted by path;
///  - FILE.tar: such members, in the archive's order;
///  - FILE.csv: the files in its first column, relative to the folder of FILE; a first line "path,..." is a heading;
///  - any other file, whether or not it exists.
/// What is left out becomes a warning. Errors: NoInput: an input cannot be read, or there are no pictures; BadData: a
/// damaged archive.
[[nodiscard]] Result<PictureList> list_pictures(const std::vector<std::string>& inputs,
                                                std::vector<std::string>& warnings);

// The list as bytes, for another rank of the same program.
[[nodiscard]] std::string to_bytes(const PictureList& list);
[[nodiscard]] PictureList picture_list_of(const std::string& bytes);

/// A source of such pictures, which all have label 0.
class PictureListSource final : public ImageSource {
 public:
  /// Errors (NoInput): an archive cannot be opened.
  [[nodiscard]] static Result<std::shared_ptr<const ImageSource>> open(PictureList list);

  PictureListSource(PictureList list, std::vector<storage::File> archives)
      : list_(std::move(list)), archives_(std::move(archives)) {}

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(list_.pictures.size()); }
  [[nodiscard]] const std::vector<std::string>& class_names() const override { return no_names_; }
  [[nodiscard]] DataIdentity identity() const override { return {}; }
  [[nodiscard]] std::int64_t label(std::int64_t /*index*/) const override { return 0; }
  [[nodiscard]] Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const override;
  /// Returns the path of a file, or "ARCHIVE: MEMBER".
  [[nodiscard]] std::string describe(std::int64_t index) const override;

 private:
  PictureList list_;
  std::vector<storage::File> archives_;
  std::vector<std::string> no_names_;
};

}  // namespace rollcall::data

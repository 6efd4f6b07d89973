#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/encoded_image.h"
#include "trainer/data/sources/sample_index.h"

namespace rollcall::data {

/// Memory that fetches reuse; it only grows, so that a steady state allocates nothing. One for each thread.
struct FetchBuffer {
  std::vector<std::byte> bytes;
  std::vector<std::uint16_t> tile_bytes;
  std::string path;
};

/// The most bytes that an encoded picture may have: more is refused before memory is taken.
inline constexpr std::uint64_t kMostPictureBytes = std::uint64_t{256} << 20U;

class SourceIndices;

/// Encoded pictures with labels: a tree of files, a packed file, tar shards. All members are thread-safe.
class ImageSource {
 public:
  struct Sample {
    EncodedImage image;  ///< points into the buffer
    std::int64_t label = 0;
  };

  ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;
  virtual ~ImageSource() = default;

  /// Number of pictures.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Name of each label.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  /// Of all pictures; takes as long as reading their labels and names from memory.
  [[nodiscard]] virtual DataIdentity identity() const = 0;
  /// Brings picture `index`, 0 ... size() - 1, into `buffer`; the sample is valid until the next fetch with it.
  /// Errors: NoInput, InputOutput: cannot be read; BadData: is not what was written (a checksum differs).
  [[nodiscard]] virtual Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const = 0;
  /// What to call a picture in messages: a path, say.
  [[nodiscard]] virtual std::string describe(std::int64_t index) const = 0;
};

/// Opens what `path` names, whose index is among `indices` then, told by what is there:
///  - a file: a packed file, as rollcall-pack writes it, or one WebDataset shard (*.tar);
///  - a folder with *.tar files: these shards, sorted by name; any other folder: a class-per-folder tree;
///  - otherwise a pattern of shards with '*', '?', '[...]' and WebDataset's "{000..146}": "/data/train-{000..146}.tar".
/// A packed file holds its own index. What a source leaves out is a warning of `indices`. Errors: NoInput: nothing of
/// that name; else those of the source. One thread at a time (HDF5).
[[nodiscard]] Result<std::shared_ptr<const ImageSource>> open_source(const std::string& path, SourceIndices& indices);

/// The shards that a pattern names, as open_source() takes it; one of a range need not be there. Errors (NoInput): no
/// pattern; no shard; a folder that cannot be listed.
[[nodiscard]] Result<std::vector<std::string>> shards_of_pattern(const std::string& pattern);

/// Calls work(0) ... work(count - 1), each once, from a few threads: for what waits for storage rather than for a CPU.
/// After a failure no further call begins. Errors: the failed call's of the lowest number, as if one came after the
/// other.
[[nodiscard]] Result<void> in_parallel(std::size_t count, const std::function<Result<void>(std::size_t)>& work);

}  // namespace rollcall::data

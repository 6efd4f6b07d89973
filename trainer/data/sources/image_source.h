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

/// Memory that fetches reuse. It only grows, so that a steady state allocates nothing. Use one per thread.
struct FetchBuffer {
  std::vector<std::byte> bytes;
  std::vector<std::uint16_t> tile_bytes;
  std::string path;
};

/// The maximum size of an encoded picture in bytes; larger ones are refused before memory is allocated.
inline constexpr std::uint64_t kMostPictureBytes = std::uint64_t{256} << 20U;

class SourceIndices;

/// A source of encoded pictures with labels: a folder tree, a packed file, or tar shards. All members are thread-safe.
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

  /// Returns the number of pictures.
  [[nodiscard]] virtual std::int64_t size() const = 0;
  /// Returns the name of each label.
  [[nodiscard]] virtual const std::vector<std::string>& class_names() const = 0;
  /// Returns the identity of the whole source. Takes as long as reading all labels and names from memory.
  [[nodiscard]] virtual DataIdentity identity() const = 0;
  /// Returns the label of picture `index`.
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;
  /// Reads picture `index`, 0 ... size() - 1, into `buffer`; the sample is valid until the next fetch with it. Errors:
  /// NoInput, InputOutput: cannot be read; BadData: differs from what was written (a wrong checksum).
  [[nodiscard]] virtual Result<Sample> fetch(std::int64_t index, FetchBuffer& buffer) const = 0;
  /// Returns the name of a picture for messages, such as its path.
  [[nodiscard]] virtual std::string describe(std::int64_t index) const = 0;
};

/// How a list of labels is read.
struct ListOptions {
  std::vector<std::string> class_names = {};  ///< in the order of their numbers; empty: those of all rows, sorted
  bool several = false;                       ///< an image may have several classes, or none
};

/// Opens the source that `path` names, and adds its index to `indices`:
///  - a file: a packed file that rollcall-pack wrote, one WebDataset shard (*.tar), or a list of labels (*.csv), which
///    is read by `list`;
///  - a folder with *.tar files: these shards, sorted by name; any other folder: one sub-folder per class;
///  - otherwise a pattern of shards with '*', '?', '[...]' and WebDataset's "{000..146}": "/data/train-{000..146}.tar".
/// A packed file holds its own index. What a source leaves out becomes a warning in `indices`. Errors: NoInput: nothing
/// has this name; those of the source. Call from one thread at a time (HDF5).
[[nodiscard]] Result<std::shared_ptr<const ImageSource>> open_source(const std::string& path, SourceIndices& indices,
                                                                     const ListOptions& list = {});

/// Returns the shards that match a pattern, in the syntax of open_source(); a shard of a range need not exist. Errors
/// (NoInput): not a pattern; no shard; a folder that cannot be listed.
[[nodiscard]] Result<std::vector<std::string>> expand_shard_pattern(const std::string& pattern);

/// Calls work(0) ... work(count - 1), each once, from a few threads, for work that waits for storage rather than for a
/// CPU. After a failure no further call is started. Returns the error of the failed call with the lowest number, as if
/// the calls ran in sequence.
[[nodiscard]] Result<void> in_parallel(std::size_t count, const std::function<Result<void>(std::size_t)>& work);

}  // namespace rollcall::data

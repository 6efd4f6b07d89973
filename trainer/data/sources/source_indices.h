#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/base/text.h"
#include "trainer/data/sources/sample_index.h"

namespace rollcall::data {

/// The indices of the sources that a program opens, and a folder in which they are kept from run to run. One thread,
/// but for what is atomic.
class SourceIndices {
 public:
  /// `folder`: created where it is not there; empty: none is kept.
  explicit SourceIndices(std::string folder = "");

  /// The index of a source: the one that was received; or the one that is kept, if nothing that it was made of has
  /// changed; or else what `make` gives, which is then kept. `source` names the source uniquely. Errors: make's.
  [[nodiscard]] Result<SampleIndex> of(const std::string& source, const std::function<Result<SampleIndex>()>& make);

  /// Those that of() gave, by source.
  [[nodiscard]] const std::map<std::string, SampleIndex>& all() const { return indices_; }
  /// Another rank's, for of() to give.
  void receive(const SampleIndex& index) { indices_.insert_or_assign(index.about().source, index); }

  /// Whoever indexes counts the samples that it finds, and ends with an error where it is asked to.
  std::atomic<std::int64_t> found = 0;
  std::atomic<bool> stop = false;

  /// What people should know: what sources leave out, what kept an index from being kept. Of indices that were received
  /// the rank that made them has told.
  void warn(const std::string& warning) { warnings_.push_back(printable(warning)); }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void warn_of(const SampleIndex& index);

  std::string folder_;
  std::int64_t began_;  ///< nanoseconds since 1970: before any source was opened
  std::map<std::string, SampleIndex> indices_;
  std::vector<std::string> warnings_;
};

/// The file in `folder` that keeps this user's index of a source.
[[nodiscard]] std::string index_path(const std::string& folder, const std::string& source);

/// The index in `path`, or nothing: no file, one that another user could have written, one that is damaged, one of
/// another source, one whose witnesses have changed.
[[nodiscard]] std::optional<SampleIndex> read_index(const std::string& path, const std::string& source);

/// Writes `path` by renaming a whole file, and removes what writers of it that were killed have left a day ago. One
/// whose witnesses changed less than a second before `began` (nanoseconds since 1970), when its making began, is not
/// kept: a change after it could bear the same time. Errors (CannotCreate).
[[nodiscard]] Result<void> keep_index(const std::string& path, const SampleIndex& index, std::int64_t began);

/// "the data was given up": what a stopped indexing ends with.
[[nodiscard]] Error indexing_stopped(const std::string& source);

}  // namespace rollcall::data

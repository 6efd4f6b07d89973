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

/// The indices of the sources that a program opens, and a folder that caches them between runs. Used by one thread,
/// except for the atomic members.
class SourceIndices {
 public:
  /// `folder` is created if it does not exist; empty: indices are not cached.
  explicit SourceIndices(std::string folder = "");

  /// Returns the index of a source: the received one, else the cached one if its stamps have not changed, else the
  /// result of `make`, which is then cached. `source` is a unique name. Errors: those of `make`.
  [[nodiscard]] Result<SampleIndex> get_or_make(const std::string& source,
                                                const std::function<Result<SampleIndex>()>& make);

  /// Returns the indices that of() returned, by source.
  [[nodiscard]] const std::map<std::string, SampleIndex>& all() const { return indices_; }
  /// Adds an index that another rank made.
  void receive(const SampleIndex& index) { indices_.insert_or_assign(index.about().source, index); }

  /// Indexing counts the samples that it finds in `found`, and ends with an error if `stop` is set.
  std::atomic<std::int64_t> found = 0;
  std::atomic<bool> stop = false;

  /// Adds a warning for users: files that sources leave out, or why an index was not cached. Warnings of received
  /// indices were reported by the rank that made them.
  void warn(const std::string& warning) { warnings_.push_back(printable(warning)); }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  void warn_of(const SampleIndex& index);

  std::string folder_;
  std::int64_t began_;  ///< time before any source was opened, in nanoseconds since 1970
  std::map<std::string, SampleIndex> indices_;
  std::vector<std::string> warnings_;
};

/// Returns the path in `folder` of this user's cached index of a source.
[[nodiscard]] std::string index_path(const std::string& folder, const std::string& source);

/// Reads a cached index. Returns nothing if there is no file, if another user could have written it, if it is damaged
/// or of another source, or if a stamp has changed.
[[nodiscard]] std::optional<SampleIndex> read_index(const std::string& path, const std::string& source);

/// Writes `path` atomically by renaming a complete file, and removes temporary files that are older than a day. An
/// index with a stamp that changed less than a second before `began` (start of indexing, in nanoseconds since 1970)
/// is not cached: a later change could have the same time stamp. Errors (CannotCreate).
[[nodiscard]] Result<void> write_index(const std::string& path, const SampleIndex& index, std::int64_t began);

/// Returns the error of an indexing that was stopped.
[[nodiscard]] Error indexing_stopped(const std::string& source);

}  // namespace rollcall::data

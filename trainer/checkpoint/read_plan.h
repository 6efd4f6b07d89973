#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/source.h"
#include "trainer/torch.h"

namespace rollcall::checkpoint {

/// A checkpoint that is being loaded, with lookup by path. Its values have been read, its tensors have not. The source
/// must outlive it.
class OpenCheckpoint {
 public:
  OpenCheckpoint(const format::CheckpointSource& source, std::map<std::string, format::Value> values)
      : source_(source), values_(std::move(values)) {}

  /// Returns the tensor, or null if there is none.
  [[nodiscard]] const format::ManifestEntry* tensor(const std::string& path) const {
    const format::ManifestEntry* const entry = source_.find(path);
    return entry != nullptr && entry->kind == format::Kind::Tensor ? entry : nullptr;
  }

  /// Returns the value, or null if there is none or it has another type.
  template <typename T>
  [[nodiscard]] const T* value(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? nullptr : std::get_if<T>(&found->second);
  }

  [[nodiscard]] const format::CheckpointSource& source() const { return source_; }

 private:
  const format::CheckpointSource& source_;
  std::map<std::string, format::Value> values_;
};

/// The tensors that a rank will read from a checkpoint. read() fills temporary memory of the size of this rank's part;
/// only apply() changes the training's tensors.
class ReadPlan {
 public:
  /// Plans to copy rows of `entry` from `first_row` on, as many as `target` has, into `target`, converted to its type.
  void fill(const at::Tensor& target, const format::ManifestEntry& entry, std::int64_t first_row);
  /// Returns a new tensor of `like`'s sizes, strides and device and of the entry's type, which read() fills with these
  /// rows.
  [[nodiscard]] at::Tensor make(const at::Tensor& like, const format::ManifestEntry& entry, std::int64_t first_row);

  /// Reads all planned rows. Errors: those of the source.
  [[nodiscard]] Result<void> read(const format::CheckpointSource& source, format::VerifyLevel level) const;
  /// Copies without recording gradients; the targets keep their memory and strides. The host waits once for a device.
  void apply();

 private:
  /// Returns a row-major host tensor of `target`'s sizes that read() fills; page-locked if `target` is on a device.
  [[nodiscard]] at::Tensor buffer(const at::Tensor& target, const format::ManifestEntry& entry, std::int64_t first_row);

  std::vector<format::ReadRequest> requests_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< (target, source)
};

}  // namespace rollcall::checkpoint

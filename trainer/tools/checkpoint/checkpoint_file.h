#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/checkpoint/interop/state_dict.h"
#include "trainer/metrics/progress_display.h"

namespace rollcall::checkpoint_tool {

/// A tensor of a checkpoint, without its bytes.
struct CheckpointTensor {
  std::string path;  ///< "/model/layer1/0/conv1/weight"
  std::string key;   ///< key in the model's state dict; empty for other tensors
  checkpoint::format::DType dtype = checkpoint::format::DType::Float32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  const checkpoint::format::ManifestEntry* entry = nullptr;  ///< entry of the file's reader

  /// Returns the name for users: the key, or else the path.
  [[nodiscard]] const std::string& name() const { return key.empty() ? path : key; }
  [[nodiscard]] std::uint64_t elements() const { return bytes / checkpoint::format::dtype_size(dtype); }
};

/// An open checkpoint; all commands of this program open checkpoints by this class. Move only. All errors are those of
/// the checkpoint's reader: NoInput, BadData, Mismatch, InputOutput.
class CheckpointFile {
 public:
  /// Opens a checkpoint. If `path` is a folder, opens the newest checkpoint in it that can be opened. Errors: also
  /// NoInput if the folder holds none.
  [[nodiscard]] static Result<CheckpointFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return reader_->path(); }
  [[nodiscard]] std::uint64_t file_bytes() const { return reader_->file_bytes(); }
  [[nodiscard]] const checkpoint::format::FileInfo& info() const { return reader_->info(); }
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, checkpoint::format::Value>& values() const { return values_; }

  /// Returns the value at `path`; nothing if there is none or it has another type.
  template <typename T>
  [[nodiscard]] std::optional<T> value(const std::string& path) const {
    const auto found = values_.find(path);
    const T* const value = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }

  /// Returns the tensor of that key or path, or null.
  [[nodiscard]] const CheckpointTensor* find(std::string_view name) const;
  /// Returns the model's tensors in the order of its state dict. Error (BadData): one is missing.
  [[nodiscard]] Result<std::vector<const CheckpointTensor*>> model() const;
  /// Reads the CheckpointTensor::bytes bytes of one of its tensors and verifies their checksums. Thread-safe.
  [[nodiscard]] Result<std::unique_ptr<std::byte[]>> read(const CheckpointTensor& tensor) const;
  /// Reads everything on up to `threads` threads and returns the names of the tensors and values whose checksums are
  /// wrong. Error (BadData): HDF5's structures are damaged.
  [[nodiscard]] Result<std::vector<std::string>> find_damaged(std::size_t threads,
                                                              metrics::WorkProgress& progress) const;

 private:
  CheckpointFile() = default;

  std::unique_ptr<checkpoint::format::CheckpointReader> reader_;  ///< on the heap, since tensors point into it
  std::vector<CheckpointTensor> tensors_;
  std::map<std::string, checkpoint::format::Value> values_;
  std::map<std::string, std::size_t, std::less<>> number_of_;  ///< index in tensors_, by key and by path
};

/// Returns the error "FOLDER: holds no checkpoint" (NoInput).
[[nodiscard]] Error no_checkpoint_in(const std::string& folder);

/// Returns the error for an unknown tensor, with the nearest known name (Usage).
[[nodiscard]] Error unknown_tensor(const CheckpointFile& file, const std::string& name);

/// Writes a checkpoint that contains a model, nothing else of a training (no optimizer, progress or generators), and
/// `values`, as safely as a training writes its own. Errors: BadData: a name that no checkpoint can contain;
/// CannotCreate, InputOutput.
[[nodiscard]] Result<void> write_model_checkpoint(const std::string& path, bool overwrite,
                                                  const std::vector<checkpoint::interop::StateTensor>& tensors,
                                                  std::map<std::string, checkpoint::format::Value> values);

/// Returns what is wrong with a state dict's keys, or an empty text. Each part between dots becomes a group or a data
/// set.
[[nodiscard]] std::string key_problem(const std::vector<checkpoint::interop::StateTensor>& tensors);

}  // namespace rollcall::checkpoint_tool

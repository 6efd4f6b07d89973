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
#include "trainer/checkpoint/exchange/state_dict.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/reader.h"
#include "trainer/metrics/progress_display.h"

namespace rollcall::checkpoint_tool {

/// A tensor of a checkpoint, without its bytes.
struct CheckpointTensor {
  std::string path;  ///< "/model/layer1/0/conv1/weight"
  std::string key;   ///< of the model's state dict; empty for tensors that are in none
  checkpoint::format::DType dtype = checkpoint::format::DType::Float32;
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
  const checkpoint::format::ManifestEntry* entry = nullptr;  ///< of the file's reader

  /// What people call it: its key, or else its path.
  [[nodiscard]] const std::string& name() const { return key.empty() ? path : key; }
  [[nodiscard]] std::uint64_t elements() const { return bytes / checkpoint::format::dtype_size(dtype); }
};

/// A checkpoint that is looked at: the only place of this program that opens one. Move only. Errors of all functions
/// are those of the checkpoint's reader: NoInput, BadData, Mismatch, InputOutput.
class CheckpointFile {
 public:
  /// `path` may be a folder: the newest checkpoint in it that can be opened. Errors: also NoInput where it holds none.
  [[nodiscard]] static Result<CheckpointFile> open(const std::string& path);

  [[nodiscard]] const std::string& path() const { return reader_->path(); }
  [[nodiscard]] std::uint64_t file_bytes() const { return reader_->file_bytes(); }
  [[nodiscard]] const checkpoint::format::FileInfo& info() const { return reader_->info(); }
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  [[nodiscard]] const std::map<std::string, checkpoint::format::Value>& values() const { return values_; }

  /// Nothing where there is none of that path, or of another type.
  template <typename T>
  [[nodiscard]] std::optional<T> value(const std::string& path) const {
    const auto found = values_.find(path);
    const T* const value = found == values_.end() ? nullptr : std::get_if<T>(&found->second);
    return value == nullptr ? std::nullopt : std::optional(*value);
  }

  /// The tensor of that key or path, or null.
  [[nodiscard]] const CheckpointTensor* find(std::string_view name) const;
  /// The model's tensors in the order of its state dict. Error (BadData): one is missing.
  [[nodiscard]] Result<std::vector<const CheckpointTensor*>> model() const;
  /// The bytes of one of its tensors, CheckpointTensor::bytes of them, their checksums being right. Thread-safe.
  [[nodiscard]] Result<std::unique_ptr<std::byte[]>> read(const CheckpointTensor& tensor) const;
  /// Reads everything, on up to `threads` threads, and gives the names of the tensors and values whose bytes are not
  /// those that were written. Error (BadData): HDF5's structures are damaged.
  [[nodiscard]] Result<std::vector<std::string>> damaged(std::size_t threads, metrics::WorkProgress& progress) const;

 private:
  CheckpointFile() = default;

  std::unique_ptr<checkpoint::format::CheckpointReader> reader_;  ///< in a place of its own: tensors point into it
  std::vector<CheckpointTensor> tensors_;
  std::map<std::string, checkpoint::format::Value> values_;
  std::map<std::string, std::size_t, std::less<>> number_of_;  ///< by key and by path
};

/// "folder: holds no checkpoint" (NoInput).
[[nodiscard]] Error no_checkpoint_in(const std::string& folder);

/// "name: unknown tensor", with the nearest known one (Usage).
[[nodiscard]] Error unknown_tensor(const CheckpointFile& file, const std::string& name);

/// Writes a checkpoint that has a model and nothing else of a training (no optimizer, progress or generators), and
/// `values` beside it, as safely as a training writes its own. Errors: BadData: a name that no checkpoint can hold;
/// CannotCreate, InputOutput.
[[nodiscard]] Result<void> write_model_checkpoint(const std::string& path, bool overwrite,
                                                  const std::vector<checkpoint::exchange::StateTensor>& tensors,
                                                  std::map<std::string, checkpoint::format::Value> values);

/// What is wrong with a state dict's keys, or an empty text: each part between dots becomes a group or a data set.
[[nodiscard]] std::string key_problem(const std::vector<checkpoint::exchange::StateTensor>& tensors);

}  // namespace rollcall::checkpoint_tool

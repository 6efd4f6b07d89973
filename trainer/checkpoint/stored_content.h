#pragma once

#include <map>
#include <string>

#include "trainer/checkpoint/format/reader.h"

namespace rollcall::checkpoint {

/// Look-up by path in an open checkpoint, which must outlive this object. Values are read, tensors are not.
class StoredContent {
 public:
  StoredContent(const format::CheckpointReader& reader, std::map<std::string, format::Value> values)
      : reader_(reader), values_(std::move(values)) {}

  /// Null where there is none.
  [[nodiscard]] const format::ManifestEntry* tensor(const std::string& path) const {
    const format::ManifestEntry* const entry = reader_.find(path);
    return entry != nullptr && entry->kind == format::Kind::Tensor ? entry : nullptr;
  }

  /// Null where there is none or it is of another type.
  template <typename T>
  [[nodiscard]] const T* value(const std::string& path) const {
    const auto found = values_.find(path);
    return found == values_.end() ? nullptr : std::get_if<T>(&found->second);
  }

  [[nodiscard]] const format::CheckpointReader& reader() const { return reader_; }

 private:
  const format::CheckpointReader& reader_;
  std::map<std::string, format::Value> values_;
};

}  // namespace rollcall::checkpoint

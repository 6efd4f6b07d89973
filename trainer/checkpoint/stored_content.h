#pragma once

#include <map>
#include <string>
#include <string_view>

#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint {

/// Look-up by path in what was read from a checkpoint. Refers to it: it must outlive this object.
class StoredContent {
 public:
  explicit StoredContent(const format::Content& content) : content_(content) {
    for (const format::TensorView& tensor : content.tensors) {
      tensors_.emplace(tensor.path, &tensor);
    }
  }

  /// Null where there is none.
  [[nodiscard]] const format::TensorView* tensor(const std::string& path) const {
    const auto found = tensors_.find(path);
    return found == tensors_.end() ? nullptr : found->second;
  }

  /// Null where there is none or it is of another type.
  template <typename T>
  [[nodiscard]] const T* value(const std::string& path) const {
    const auto found = content_.values.find(path);
    return found == content_.values.end() ? nullptr : std::get_if<T>(&found->second);
  }

  [[nodiscard]] const format::Content& content() const { return content_; }

 private:
  const format::Content& content_;
  std::map<std::string_view, const format::TensorView*> tensors_;
};

}  // namespace rollcall::checkpoint

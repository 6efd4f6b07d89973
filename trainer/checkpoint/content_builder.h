#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "trainer/checkpoint/format/content.h"

namespace rollcall::checkpoint {

/// Content being put together; keeps the memory that its views point into.
struct ContentBuilder {
  format::Content content;
  std::vector<at::Tensor> held;

  /// Adds `tensor` in row-major order on the host; copied only where it is not so already.
  void add(std::string path, std::string state_dict_key, const at::Tensor& tensor);
};

/// "float32", "bfloat16" ... of a tensor. Types that the format does not have are a bug of ours: throws c10::Error.
[[nodiscard]] format::DType format_dtype(at::ScalarType type);

/// `view` as a tensor on the host, without a copy: the view's memory must outlive it and is only read.
[[nodiscard]] at::Tensor as_tensor(const format::TensorView& view);

}  // namespace rollcall::checkpoint

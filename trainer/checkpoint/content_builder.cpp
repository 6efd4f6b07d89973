#include "trainer/checkpoint/content_builder.h"

#include <array>
#include <utility>

namespace rollcall::checkpoint {
namespace {

using format::DType;

constexpr std::array kTypes{
    std::pair{at::kHalf, DType::Float16},  std::pair{at::kBFloat16, DType::BFloat16},
    std::pair{at::kFloat, DType::Float32}, std::pair{at::kDouble, DType::Float64},
    std::pair{at::kBool, DType::Bool},     std::pair{at::kByte, DType::UInt8},
    std::pair{at::kChar, DType::Int8},     std::pair{at::kShort, DType::Int16},
    std::pair{at::kInt, DType::Int32},     std::pair{at::kLong, DType::Int64},
};

at::ScalarType scalar_type(DType dtype) {
  for (const auto& [scalar, named] : kTypes) {
    if (named == dtype) {
      return scalar;
    }
  }
  TORCH_CHECK(false, "unknown element type of a checkpoint");
}

}  // namespace

format::DType format_dtype(at::ScalarType type) {
  for (const auto& [scalar, named] : kTypes) {
    if (scalar == type) {
      return named;
    }
  }
  TORCH_CHECK(false, "tensors of type ", type, " cannot be saved in a checkpoint");
}

void ContentBuilder::add(std::string path, std::string state_dict_key, const at::Tensor& tensor) {
  const at::Tensor& host = held.emplace_back(tensor.detach().to(at::kCPU).contiguous());
  const auto* const data = static_cast<const std::byte*>(host.const_data_ptr());
  content.tensors.push_back({std::move(path),
                             std::move(state_dict_key),
                             format_dtype(host.scalar_type()),
                             host.sizes().vec(),
                             {data, host.nbytes()}});
}

at::Tensor as_tensor(const format::TensorView& view) {
  auto* const data = const_cast<std::byte*>(view.bytes.data());
  return torch::from_blob(data, view.shape, at::TensorOptions(scalar_type(view.dtype)));
}

}  // namespace rollcall::checkpoint

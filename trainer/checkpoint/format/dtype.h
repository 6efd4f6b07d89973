#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rollcall::checkpoint::format {

/// Element types of tensors, named as PyTorch names them.
enum class DType { Float16, BFloat16, Float32, Float64, Bool, UInt8, Int8, Int16, Int32, Int64 };

/// "float32" and so on: the value of a tensor's `dtype` attribute.
[[nodiscard]] std::string_view dtype_name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
/// Bytes of one element.
[[nodiscard]] std::size_t dtype_size(DType dtype);

}  // namespace rollcall::checkpoint::format

#pragma once

#include <array>
#include <string_view>

#include "trainer/checkpoint/format/dtype.h"

namespace rollcall::checkpoint::exchange {

struct SafetensorsType {
  std::string_view name;
  format::DType dtype;
};

/// The names of element types in safetensors files that checkpoints have too.
inline constexpr std::array kSafetensorsTypes{
    SafetensorsType{"F16", format::DType::Float16}, SafetensorsType{"BF16", format::DType::BFloat16},
    SafetensorsType{"F32", format::DType::Float32}, SafetensorsType{"F64", format::DType::Float64},
    SafetensorsType{"BOOL", format::DType::Bool},   SafetensorsType{"U8", format::DType::UInt8},
    SafetensorsType{"I8", format::DType::Int8},     SafetensorsType{"I16", format::DType::Int16},
    SafetensorsType{"I32", format::DType::Int32},   SafetensorsType{"I64", format::DType::Int64},
};

}  // namespace rollcall::checkpoint::exchange

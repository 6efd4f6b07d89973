#include "trainer/checkpoint/format/dtype.h"

#include <array>

namespace rollcall::checkpoint::format {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array kRows{
    Row{DType::Float16, "float16", 2}, Row{DType::BFloat16, "bfloat16", 2}, Row{DType::Float32, "float32", 4},
    Row{DType::Float64, "float64", 8}, Row{DType::Bool, "bool", 1},         Row{DType::UInt8, "uint8", 1},
    Row{DType::Int8, "int8", 1},       Row{DType::Int16, "int16", 2},       Row{DType::Int32, "int32", 4},
    Row{DType::Int64, "int64", 8},
};

const Row& row_of(DType dtype) { return kRows[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view dtype_name(DType dtype) { return row_of(dtype).name; }

std::size_t dtype_size(DType dtype) { return row_of(dtype).size; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) {
      return row.dtype;
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::checkpoint::format

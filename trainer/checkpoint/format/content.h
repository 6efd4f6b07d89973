#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/checkpoint/format/manifest.h"

namespace rollcall::checkpoint::format {

/// The element types of tensors, named as in PyTorch, with the numbers of its c10::ScalarType.
enum class DType : std::int8_t {
  UInt8 = 0,
  Int8 = 1,
  Int16 = 2,
  Int32 = 3,
  Int64 = 4,
  Float16 = 5,
  Float32 = 6,
  Float64 = 7,
  Bool = 11,
  BFloat16 = 15,
};

struct DTypeRow {
  DType dtype;
  std::size_t size;  ///< bytes of one element
  // Its names:
  std::string_view name;         ///< the value of a tensor's `dtype` attribute
  std::string_view safetensors;  ///< name in the header of a safetensors file
  std::string_view storage;      ///< class of its storages in a pickle of PyTorch
};

/// All supported types.
inline constexpr std::array kDTypes{
    DTypeRow{DType::Float16, 2, "float16", "F16", "HalfStorage"},
    DTypeRow{DType::BFloat16, 2, "bfloat16", "BF16", "BFloat16Storage"},
    DTypeRow{DType::Float32, 4, "float32", "F32", "FloatStorage"},
    DTypeRow{DType::Float64, 8, "float64", "F64", "DoubleStorage"},
    DTypeRow{DType::Bool, 1, "bool", "BOOL", "BoolStorage"},
    DTypeRow{DType::UInt8, 1, "uint8", "U8", "ByteStorage"},
    DTypeRow{DType::Int8, 1, "int8", "I8", "CharStorage"},
    DTypeRow{DType::Int16, 2, "int16", "I16", "ShortStorage"},
    DTypeRow{DType::Int32, 4, "int32", "I32", "IntStorage"},
    DTypeRow{DType::Int64, 8, "int64", "I64", "LongStorage"},
};

[[nodiscard]] const DTypeRow& dtype_row(DType dtype);
[[nodiscard]] inline std::string_view dtype_name(DType dtype) { return dtype_row(dtype).name; }
[[nodiscard]] inline std::size_t dtype_size(DType dtype) { return dtype_row(dtype).size; }
/// Returns the type whose `column` is `name`; nothing if there is none.
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name,
                                                   std::string_view DTypeRow::*column = &DTypeRow::name);

/// One tensor, or this rank's part of one: row-major, contiguous, little-endian. The bytes belong to the caller and
/// outlive the view.
struct TensorView {
  std::string path;            ///< of the HDF5 data set: "/model/layer1/0/conv1/weight"
  std::string state_dict_key;  ///< "layer1.0.conv1.weight"; empty for tensors that are in no state dict
  DType dtype = DType::Float32;
  std::vector<std::int64_t> shape;  ///< of the whole tensor; empty: a scalar
  std::span<const std::byte> bytes;
  /// The offset of `bytes` in the whole tensor. Together the ranks that write a checkpoint provide each byte exactly
  /// once.
  std::uint64_t first_byte = 0;
};

/// A small value that is not a tensor: a number, a text (UTF-8, without NUL) or a list of texts.
using Value = std::variant<std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>>;

/// The content of a checkpoint, except for what the writer adds (root attributes, checksums, /manifest).
struct Content {
  std::vector<TensorView> tensors;
  std::map<std::string, Value> values;  ///< by path: "/progress/epoch", "/model_keys", "/config/json"
};

/// Returns "[64,3,7,7]", the form of shapes in messages.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// A value as stored in the file.
struct EncodedValue {
  ManifestEntry entry;  ///< without offset and checksums
  std::vector<std::byte> bytes;
};

/// Encodes a value: numbers are little-endian; texts have a common length, padded with NUL.
[[nodiscard]] EncodedValue encode_value(const std::string& path, const Value& value);

/// Decodes the number or text(s) of an entry with these bytes; nothing for kinds that this version does not support.
[[nodiscard]] std::optional<Value> decode_value(const ManifestEntry& entry, std::span<const std::byte> bytes);

}  // namespace rollcall::checkpoint::format

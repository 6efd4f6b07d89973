#pragma once

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

/// Element types of tensors, named as PyTorch names them.
enum class DType { Float16, BFloat16, Float32, Float64, Bool, UInt8, Int8, Int16, Int32, Int64 };

/// "float32" and so on: the value of a tensor's `dtype` attribute.
[[nodiscard]] std::string_view dtype_name(DType dtype);
[[nodiscard]] std::optional<DType> dtype_from_name(std::string_view name);
/// Bytes of one element.
[[nodiscard]] std::size_t dtype_size(DType dtype);

/// One tensor, or this rank's part of one: row-major, contiguous, little-endian. The bytes belong to somebody else and
/// outlive the view.
struct TensorView {
  std::string path;            ///< of the HDF5 data set: "/model/layer1/0/conv1/weight"
  std::string state_dict_key;  ///< "layer1.0.conv1.weight"; empty for tensors that are in no state dict
  DType dtype = DType::Float32;
  std::vector<std::int64_t> shape;  ///< of the whole tensor; empty: a scalar
  std::span<const std::byte> bytes;
  /// Where `bytes` begin in the whole tensor. Together the ranks that write a checkpoint give each byte exactly once.
  std::uint64_t first_byte = 0;
};

/// A small value that is no tensor: a number, a text (UTF-8, without NUL) or a list of texts.
using Value = std::variant<std::int64_t, std::uint64_t, double, std::string, std::vector<std::string>>;

/// What a checkpoint holds, apart from what the writer itself adds (root attributes, checksums, /manifest).
struct Content {
  std::vector<TensorView> tensors;
  std::map<std::string, Value> values;  ///< by path: "/progress/epoch", "/model_keys", "/config/json"
};

/// "[64,3,7,7]", as messages show shapes.
[[nodiscard]] std::string shape_text(std::span<const std::int64_t> shape);

/// A value as it lies in the file.
struct EncodedValue {
  ManifestEntry entry;  ///< without offset and checksums
  std::vector<std::byte> bytes;
};

/// Numbers are little-endian; texts have a common length, padded with NUL.
[[nodiscard]] EncodedValue encode_value(const std::string& path, const Value& value);

/// The number or text(s) of an entry whose bytes these are; nothing for kinds that this version does not know.
[[nodiscard]] std::optional<Value> decode_value(const ManifestEntry& entry, std::span<const std::byte> bytes);

}  // namespace rollcall::checkpoint::format

#pragma once

#include <algorithm>
#include <string>

/// The names of the checkpoint format. docs/reference/checkpoint_format.md explains them.
namespace rollcall::checkpoint::format::schema {

inline constexpr const char* kFormat = "rollcall-checkpoint";
inline constexpr int kMajorVersion = 1;  ///< readers refuse a newer one
inline constexpr int kMinorVersion = 1;  ///< readers ignore unknown objects

// Attributes of "/".
inline constexpr const char* kFormatAttribute = "format";
inline constexpr const char* kVersionAttribute = "format_version";
inline constexpr const char* kWriterAttribute = "writer";
inline constexpr const char* kTorchVersionAttribute = "torch_version";
inline constexpr const char* kCreatedAttribute = "created";
inline constexpr const char* kCompleteAttribute = "complete";

// Attributes of data sets.
inline constexpr const char* kStateDictKeyAttribute = "state_dict_key";
inline constexpr const char* kDTypeAttribute = "dtype";
inline constexpr const char* kCrcAttribute = "crc32c";
inline constexpr const char* kDimOrderAttribute = "dim_order";
inline constexpr const char* kRowMajor = "row-major";

// Types of values in /manifest.
inline constexpr const char* kInt64 = "int64";
inline constexpr const char* kUInt64 = "uint64";
inline constexpr const char* kFloat64 = "float64";
inline constexpr const char* kText = "text";

inline constexpr const char* kModel = "/model/";
inline constexpr const char* kModelKeys = "/model_keys";
inline constexpr const char* kAverage = "/ema/";
inline constexpr const char* kManifest = "/manifest";

/// Returns the path of a key of the state dict: "/model/layer1/0/conv1/weight".
[[nodiscard]] inline std::string model_path(std::string key) {
  std::ranges::replace(key, '.', '/');
  return kModel + key;
}
/// Returns the path of the same key of the weights' average: "/ema/layer1/0/conv1/weight".
[[nodiscard]] inline std::string average_path(std::string key) {
  std::ranges::replace(key, '.', '/');
  return kAverage + key;
}

}  // namespace rollcall::checkpoint::format::schema

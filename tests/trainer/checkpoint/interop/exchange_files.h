#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/state_dict.h"

namespace rollcall::checkpoint::interop {

using format::DType;
using format::TemporaryFolder;

/// One tensor of every type, an empty one, a scalar, and memory that they point into.
struct SampleState {
  SampleState() {
    for (std::size_t i = 0; i < sizeof(bytes); ++i) {
      bytes[i] = static_cast<std::byte>(i);
    }
    const std::span<const std::byte> all(bytes);
    constexpr std::array kTypes{DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::UInt8,
                                DType::Int8,    DType::Int16,    DType::Int32,   DType::Int64};
    for (const DType dtype : kTypes) {
      tensors.push_back(
          {"of." + std::string(format::dtype_name(dtype)), dtype, {3, 5}, all.first(15 * format::dtype_size(dtype))});
    }
    tensors.push_back({"of.bool", DType::Bool, {2}, all.first(2)});  // 0 and 1
    tensors.push_back({"empty", DType::Float32, {0, 7}, {}});
    tensors.push_back({"scalar", DType::Int64, {}, all.first(8)});
  }
  SampleState(const SampleState&) = delete;
  SampleState& operator=(const SampleState&) = delete;

  std::byte bytes[128];
  std::vector<StateTensor> tensors;
};

/// Whether each tensor of `expected` is in `found`, with its type, shape and bytes, and nothing else.
inline testing::AssertionResult same_tensors(const std::vector<StateTensor>& found,
                                             const std::vector<StateTensor>& expected) {
  if (found.size() != expected.size()) {
    return testing::AssertionFailure() << found.size() << " tensors";
  }
  for (const StateTensor& wanted : expected) {
    const auto here = std::ranges::find(found, wanted.key, &StateTensor::key);
    const bool same = here != found.end() && here->dtype == wanted.dtype && here->shape == wanted.shape &&
                      std::ranges::equal(here->bytes, wanted.bytes);
    if (!same) {
      return testing::AssertionFailure() << wanted.key;
    }
  }
  return testing::AssertionSuccess();
}

inline void write_text(const std::string& path, std::string_view text) {
  format::write_file(path, {text.begin(), text.end()});
}

}  // namespace rollcall::checkpoint::interop

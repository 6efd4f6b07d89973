#include <algorithm>
#include <nlohmann/json.hpp>

#include "trainer/checkpoint/exchange/little_endian.h"
#include "trainer/checkpoint/exchange/safetensors_file.h"
#include "trainer/checkpoint/exchange/safetensors_types.h"

namespace rollcall::checkpoint::exchange {
namespace {

std::string type_name(format::DType dtype) {
  return std::string(std::ranges::find(kSafetensorsTypes, dtype, &SafetensorsType::dtype)->name);
}

/// Eight bytes of length and the JSON, filled up with blanks so that the tensors begin at a multiple of eight.
std::string header_of(std::span<const StateTensor* const> tensors) {
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (const StateTensor* const tensor : tensors) {
    header[tensor->key] = {{"dtype", type_name(tensor->dtype)},
                           {"shape", tensor->shape},
                           {"data_offsets", {at, at + tensor->bytes.size()}}};
    at += tensor->bytes.size();
  }
  std::string json = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  json.resize((json.size() + 7) / 8 * 8, ' ');
  std::string text;
  append_number<std::uint64_t>(text, json.size());
  return text + json;
}

}  // namespace

Result<void> write_safetensors(OutputFile& out, std::span<const StateTensor> tensors) {
  std::vector<const StateTensor*> ordered;
  for (const StateTensor& tensor : tensors) {
    ordered.push_back(&tensor);
  }
  std::ranges::stable_sort(
      ordered, [](std::size_t a, std::size_t b) { return a > b; },
      [](const StateTensor* tensor) { return format::dtype_size(tensor->dtype); });
  if (auto written = out.append(header_of(ordered)); !written) {
    return written;
  }
  for (const StateTensor* const tensor : ordered) {
    if (auto written = out.append(tensor->bytes); !written) {
      return written;
    }
  }
  return {};
}

}  // namespace rollcall::checkpoint::exchange

#include "trainer/checkpoint/interop/state_dict.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/interop/files.h"

namespace rollcall::checkpoint::interop {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLongestHeader = 100'000'000;  // the reference implementation's limit
constexpr const char* kMetadata = "__metadata__";

/// One tensor of the header; its offsets count from the end of the header.
struct Entry {
  StateTensor tensor;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

/// Returns the unsigned numbers of a JSON list; nothing if it has other elements.
std::optional<std::vector<std::int64_t>> numbers(const Json& parent, const char* name) {
  const auto list = parent.find(name);
  if (list == parent.end() || !list->is_array()) {
    return std::nullopt;
  }
  std::vector<std::int64_t> found;
  for (const Json& number : *list) {
    if (!number.is_number_unsigned() || !std::in_range<std::int64_t>(number.get<std::uint64_t>())) {
      return std::nullopt;
    }
    found.push_back(static_cast<std::int64_t>(number.get<std::uint64_t>()));
  }
  return found;
}

Result<Entry> entry_of(const InputFile& file, const std::string& key, const Json& json) {
  const bool named = json.is_object() && json.contains("dtype") && json["dtype"].is_string();
  const auto shape = named ? numbers(json, "shape") : std::nullopt;
  const auto place = shape ? numbers(json, "data_offsets") : std::nullopt;
  if (!place || place->size() != 2) {
    return file.unusable(fmt::format("is damaged: the header entry of tensor {} is invalid", key));
  }
  const auto type = json["dtype"].get<std::string>();
  const auto dtype = format::dtype_from_name(type, &format::DTypeRow::safetensors);
  if (!dtype) {
    return file.unusable(fmt::format("holds tensor {} of type {}, which checkpoints do not support", key, type),
                         "converting it to float32 or bfloat16 first");
  }
  const auto begin = static_cast<std::uint64_t>((*place)[0]);
  const auto end = static_cast<std::uint64_t>((*place)[1]);
  if (begin > end || byte_count(*dtype, *shape) != end - begin) {
    return file.unusable(fmt::format("is damaged: the size of tensor {} does not match its shape", key));
  }
  return Entry{{key, *dtype, *shape, {}}, begin, end};
}

/// Returns all tensors of the header in the order of their bytes, which must fill the rest of the file without gaps.
Result<std::vector<Entry>> entries_of(const InputFile& file, const Json& header, std::uint64_t data_bytes) {
  std::vector<Entry> entries;
  for (const auto& [key, json] : header.items()) {
    if (key == kMetadata) {
      continue;
    }
    ASSIGN_OR_RETURN(auto entry, entry_of(file, key, json));
    entries.push_back(std::move(entry));
  }
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      return file.unusable("is damaged: its tensors overlap or leave gaps");
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    return file.unusable(
        fmt::format("is truncated or damaged: it has {} bytes of tensors instead of {}", data_bytes, at),
        "copying it again");
  }
  return entries;
}

/// Returns eight bytes of length and the JSON, padded with blanks so that the tensors begin at a multiple of eight.
std::string header_of(std::span<const StateTensor* const> tensors) {
  nlohmann::json header{{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (const StateTensor* const tensor : tensors) {
    header[tensor->key] = {{"dtype", format::dtype_row(tensor->dtype).safetensors},
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

Result<StateDict> read_safetensors(const InputFile& file) {
  std::array<std::byte, 8> length_bytes{};
  RETURN_IF_ERROR(file.read(length_bytes, 0));
  const auto length = number_at<std::uint64_t>(length_bytes, 0);
  if (length > kLongestHeader || length > file.size() - length_bytes.size()) {
    return file.unusable("is damaged or not a safetensors file: its header is longer than the file");
  }
  ASSIGN_OR_RETURN(const auto text, file.read(length, length_bytes.size()));
  const auto* const begin = reinterpret_cast<const char*>(text.get());
  const auto header = Json::parse(begin, begin + length, nullptr, /*allow_exceptions=*/false);
  if (!header.is_object()) {
    return file.unusable("is damaged or not a safetensors file: its header is not a JSON object");
  }
  const std::uint64_t data = length_bytes.size() + length;
  ASSIGN_OR_RETURN(auto entries, entries_of(file, header, file.size() - data));
  StateDict state;
  for (Entry& entry : entries) {
    ASSIGN_OR_RETURN(auto bytes, file.read(entry.end - entry.begin, data + entry.begin));
    entry.tensor.bytes = {bytes.get(), entry.end - entry.begin};
    state.storage.push_back(std::move(bytes));
    state.tensors.push_back(std::move(entry.tensor));
  }
  return state;
}

Result<void> write_safetensors(OutputFile& out, std::span<const StateTensor> tensors) {
  std::vector<const StateTensor*> ordered;
  for (const StateTensor& tensor : tensors) {
    ordered.push_back(&tensor);
  }
  std::ranges::stable_sort(
      ordered, [](std::size_t a, std::size_t b) { return a > b; },
      [](const StateTensor* tensor) { return format::dtype_size(tensor->dtype); });
  RETURN_IF_ERROR(out.append(header_of(ordered)));
  for (const StateTensor* const tensor : ordered) {
    RETURN_IF_ERROR(out.append(tensor->bytes));
  }
  return {};
}

}  // namespace rollcall::checkpoint::interop

#include "trainer/checkpoint/format/content.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "trainer/checkpoint/format/schema.h"

namespace rollcall::checkpoint::format {
namespace {

template <typename Number>
void set_number(EncodedValue& encoded, const char* type, Number number) {
  encoded.entry.type = type;
  encoded.entry.element_bytes = sizeof(number);
  encoded.bytes.resize(sizeof(number));
  std::memcpy(encoded.bytes.data(), &number, sizeof(number));
}

void set_texts(EncodedValue& encoded, std::span<const std::string> texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) {
    longest = std::max(longest, text.size());
  }
  encoded.entry.type = schema::kText;
  encoded.entry.element_bytes = longest;
  encoded.bytes.resize(longest * texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(encoded.bytes.data() + i * longest, texts[i].data(), texts[i].size());
  }
}

struct SetValue {
  EncodedValue& encoded;

  void operator()(std::int64_t number) const { set_number(encoded, schema::kInt64, number); }
  void operator()(std::uint64_t number) const { set_number(encoded, schema::kUInt64, number); }
  void operator()(double number) const { set_number(encoded, schema::kFloat64, number); }
  void operator()(const std::string& text) const { set_texts(encoded, std::span(&text, 1)); }
  void operator()(const std::vector<std::string>& texts) const {
    encoded.entry.shape = {static_cast<std::int64_t>(texts.size())};
    set_texts(encoded, texts);
  }
};

template <typename Number>
std::optional<Value> number_in(const ManifestEntry& entry, std::span<const std::byte> bytes) {
  Number number{};
  if (!entry.shape.empty() || bytes.size() != sizeof(number)) {
    return std::nullopt;
  }
  std::memcpy(&number, bytes.data(), sizeof(number));
  return number;
}

std::string without_padding(std::span<const std::byte> text) {
  const auto* const characters = reinterpret_cast<const char*>(text.data());
  return {characters, ::strnlen(characters, text.size())};
}

std::optional<Value> texts_in(const ManifestEntry& entry, std::span<const std::byte> bytes) {
  if (entry.shape.empty()) {
    return without_padding(bytes);
  }
  const std::uint64_t length = entry.element_bytes;
  if (entry.shape.size() > 1 || length == 0) {
    return std::nullopt;
  }
  std::vector<std::string> texts;
  for (std::size_t at = 0; at + length <= bytes.size(); at += length) {
    texts.push_back(without_padding(bytes.subspan(at, length)));
  }
  return texts;
}

}  // namespace

const DTypeRow& dtype_row(DType dtype) { return *std::ranges::find(kDTypes, dtype, &DTypeRow::dtype); }

std::optional<DType> dtype_from_name(std::string_view name, std::string_view DTypeRow::*column) {
  const auto* const found = std::ranges::find(kDTypes, name, column);
  return found == kDTypes.end() ? std::nullopt : std::optional(found->dtype);
}

std::string shape_text(std::span<const std::int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

EncodedValue encode_value(const std::string& path, const Value& value) {
  EncodedValue encoded;
  encoded.entry.name = path;
  encoded.entry.kind = Kind::Value;
  std::visit(SetValue{encoded}, value);
  encoded.entry.bytes = encoded.bytes.size();
  return encoded;
}

std::optional<Value> decode_value(const ManifestEntry& entry, std::span<const std::byte> bytes) {
  if (entry.kind != Kind::Value) {
    return std::nullopt;
  }
  if (entry.type == schema::kText) {
    return texts_in(entry, bytes);
  }
  if (entry.type == schema::kInt64) {
    return number_in<std::int64_t>(entry, bytes);
  }
  if (entry.type == schema::kUInt64) {
    return number_in<std::uint64_t>(entry, bytes);
  }
  return entry.type == schema::kFloat64 ? number_in<double>(entry, bytes) : std::nullopt;
}

}  // namespace rollcall::checkpoint::format

#include "trainer/checkpoint/format/value_bytes.h"

#include <algorithm>
#include <cstring>

#include "trainer/checkpoint/format/schema.h"

namespace rollcall::checkpoint::format {
namespace {

template <typename Number>
void set_number(StoredValue& stored, const char* type, Number number) {
  stored.entry.type = type;
  stored.entry.element_bytes = sizeof(number);
  stored.bytes.resize(sizeof(number));
  std::memcpy(stored.bytes.data(), &number, sizeof(number));
}

void set_texts(StoredValue& stored, std::span<const std::string> texts) {
  std::size_t longest = 1;
  for (const std::string& text : texts) {
    longest = std::max(longest, text.size());
  }
  stored.entry.type = schema::kText;
  stored.entry.element_bytes = longest;
  stored.bytes.resize(longest * texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::memcpy(stored.bytes.data() + i * longest, texts[i].data(), texts[i].size());
  }
}

struct SetValue {
  StoredValue& stored;

  void operator()(std::int64_t number) const { set_number(stored, schema::kInt64, number); }
  void operator()(std::uint64_t number) const { set_number(stored, schema::kUInt64, number); }
  void operator()(double number) const { set_number(stored, schema::kFloat64, number); }
  void operator()(const std::string& text) const { set_texts(stored, std::span(&text, 1)); }
  void operator()(const std::vector<std::string>& texts) const {
    stored.entry.shape = {static_cast<std::int64_t>(texts.size())};
    set_texts(stored, texts);
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

StoredValue store_value(const std::string& path, const Value& value) {
  StoredValue stored;
  stored.entry.name = path;
  stored.entry.kind = Kind::Metadata;
  std::visit(SetValue{stored}, value);
  stored.entry.bytes = stored.bytes.size();
  return stored;
}

std::optional<Value> value_of(const ManifestEntry& entry, std::span<const std::byte> bytes) {
  if (entry.kind != Kind::Metadata) {
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

#include "trainer/checkpoint/format/write_plan.h"

#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

namespace rollcall::checkpoint::format {
namespace {

ManifestEntry entry_of(const TensorView& tensor) {
  ManifestEntry entry;
  entry.name = tensor.path;
  entry.kind = Kind::Tensor;
  entry.type = dtype_name(tensor.dtype);
  entry.element_bytes = dtype_size(tensor.dtype);
  entry.shape = tensor.shape;
  entry.state_dict_key = tensor.state_dict_key;
  entry.bytes = element_count(tensor.shape).value_or(0) * entry.element_bytes;
  return entry;
}

Error not_placed(const WritePlan& plan, const std::string& reason) {
  return fail("checkpoint", plan.temporary, reason, "starting all ranks with the same settings", ExitCode::Mismatch);
}

}  // namespace

std::vector<ManifestEntry> entries_of(const Content& content, const std::vector<StoredValue>& values) {
  std::vector<ManifestEntry> entries;
  entries.reserve(content.tensors.size() + values.size());
  for (const TensorView& tensor : content.tensors) {
    entries.push_back(entry_of(tensor));
  }
  for (const StoredValue& value : values) {
    entries.push_back(value.entry);
  }
  return entries;
}

Result<void> share(WritePlan& plan, RankGroup& group) {
  if (group.size() == 1) {
    return {};
  }
  std::vector<std::byte> bytes;
  if (group.rank() == 0) {
    nlohmann::json rows = nlohmann::json::array();
    for (const ManifestEntry& entry : plan.datasets) {
      rows.push_back({entry.name, entry.offset, entry.bytes});
    }
    const auto packed = nlohmann::json::to_cbor({{"temporary", plan.temporary}, {"datasets", std::move(rows)}});
    const auto view = std::as_bytes(std::span(packed));
    bytes.assign(view.begin(), view.end());
  }
  if (Result<void> told = group.broadcast(bytes); !told || group.rank() == 0) {
    return told;
  }
  const auto* const packed = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto json = nlohmann::json::from_cbor(packed, packed + bytes.size(), true, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("temporary") || !json.contains("datasets")) {
    return fail("checkpoint", "", "rank 0 sent something else than its plan", "reporting this", ExitCode::Internal);
  }
  plan.temporary = json["temporary"].get<std::string>();
  for (const auto& row : json["datasets"]) {
    ManifestEntry& entry = plan.datasets.emplace_back();
    row.at(0).get_to(entry.name);
    row.at(1).get_to(entry.offset);
    row.at(2).get_to(entry.bytes);
  }
  return {};
}

Result<std::vector<PlacedSlice>> place(const Content& content, const std::vector<StoredValue>& values,
                                       const WritePlan& plan) {
  std::map<std::string_view, std::size_t> number_of;
  for (std::size_t i = 0; i < plan.datasets.size(); ++i) {
    number_of.emplace(plan.datasets[i].name, i);
  }
  std::vector<PlacedSlice> slices;
  const auto add = [&](const std::string& name, std::uint64_t first_byte, std::span<const std::byte> bytes) {
    const auto found = number_of.find(name);
    if (found == number_of.end()) {
      return false;
    }
    const ManifestEntry& entry = plan.datasets[found->second];
    slices.push_back(
        {entry.offset + first_byte, found->second, first_byte, bytes, first_byte + bytes.size() == entry.bytes});
    return first_byte <= entry.bytes && bytes.size() <= entry.bytes - first_byte;
  };
  for (const TensorView& tensor : content.tensors) {
    if (!tensor.bytes.empty() && !add(tensor.path, tensor.first_byte, tensor.bytes)) {
      return not_placed(plan, fmt::format("{} is not on rank 0 or has another size there", tensor.path));
    }
  }
  for (const StoredValue& value : values) {
    if (!add(value.entry.name, 0, value.bytes)) {
      return not_placed(plan, fmt::format("{} is there twice", value.entry.name));
    }
  }
  return slices;
}

}  // namespace rollcall::checkpoint::format

#include "trainer/checkpoint/format/manifest.h"

#include <nlohmann/json.hpp>

namespace rollcall::checkpoint::format {

std::string manifest_to_json(const std::vector<ManifestEntry>& entries) {
  nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
  for (const ManifestEntry& entry : entries) {
    datasets.push_back({{"name", entry.name}, {"bytes", entry.bytes}, {"crc32c", entry.crc32c}});
  }
  return nlohmann::ordered_json{{"datasets", std::move(datasets)}}.dump();
}

std::optional<std::vector<ManifestEntry>> manifest_from_json(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("datasets") || !json["datasets"].is_array()) {
    return std::nullopt;
  }
  std::vector<ManifestEntry> entries;
  for (const auto& row : json["datasets"]) {
    const bool sound = row.is_object() && row.contains("name") && row["name"].is_string() && row.contains("bytes") &&
                       row["bytes"].is_number_unsigned() && row.contains("crc32c") &&
                       row["crc32c"].is_number_unsigned();
    if (!sound) {
      return std::nullopt;
    }
    entries.push_back(
        {row["name"].get<std::string>(), row["bytes"].get<std::uint64_t>(), row["crc32c"].get<std::uint32_t>()});
  }
  return entries;
}

}  // namespace rollcall::checkpoint::format

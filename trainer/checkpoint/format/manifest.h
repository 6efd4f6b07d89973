#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::checkpoint::format {

/// One data set of a checkpoint file: what /manifest says of it.
struct ManifestEntry {
  std::string name;  ///< path of the data set
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;
};

/// {"datasets":[{"name":...,"bytes":...,"crc32c":...},...]}, in the order given.
[[nodiscard]] std::string manifest_to_json(const std::vector<ManifestEntry>& entries);
/// Nothing where the text is no manifest.
[[nodiscard]] std::optional<std::vector<ManifestEntry>> manifest_from_json(std::string_view text);

}  // namespace rollcall::checkpoint::format

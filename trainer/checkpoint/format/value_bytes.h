#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/manifest.h"

namespace rollcall::checkpoint::format {

/// A value as it lies in the file.
struct StoredValue {
  ManifestEntry entry;  ///< without offset and checksums
  std::vector<std::byte> bytes;
};

/// Numbers are little-endian; texts have a common length, padded with NUL.
[[nodiscard]] StoredValue store_value(const std::string& path, const Value& value);

/// The number or text(s) of an entry whose bytes these are; nothing for kinds that this version does not know.
[[nodiscard]] std::optional<Value> value_of(const ManifestEntry& entry, std::span<const std::byte> bytes);

}  // namespace rollcall::checkpoint::format

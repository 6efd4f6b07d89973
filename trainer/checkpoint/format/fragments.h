#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trainer/checkpoint/format/manifest.h"

namespace rollcall::checkpoint::format {

/// The checksum of a stretch of a data set that lies within one piece: what a rank tells of what it wrote.
struct Fragment {
  std::uint64_t dataset = 0;     ///< its number in the manifest
  std::uint64_t first_byte = 0;  ///< in the data set
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  friend bool operator==(const Fragment&, const Fragment&) = default;
};

/// Appends the fragments of `bytes`, which begin at `first_byte` of a data set.
void sum_up(std::vector<Fragment>& fragments, std::uint64_t dataset, std::uint64_t first_byte,
            std::span<const std::byte> bytes);

/// Joins neighbours in the same piece; sorted afterwards.
void join(std::vector<Fragment>& fragments);

/// For sending: bytes of this machine's order (all ranks have the same).
[[nodiscard]] std::vector<std::byte> to_bytes(const std::vector<Fragment>& fragments);
[[nodiscard]] std::optional<std::vector<Fragment>> fragments_from_bytes(std::span<const std::byte> bytes);

/// Fills in the checksums of all data sets from the fragments of all ranks. What is wrong, or an empty text: every byte
/// must have been written by one rank, and by one only.
[[nodiscard]] std::string set_checksums(std::vector<ManifestEntry>& datasets, std::vector<Fragment> fragments);

}  // namespace rollcall::checkpoint::format

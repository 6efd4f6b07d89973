#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::checkpoint::format {

/// The writer of a file, the time, and the version of the format.
struct FileInfo {
  std::string format_version;  ///< "1.1"
  std::string writer;
  std::string torch_version;
  std::string created;  ///< ISO 8601, UTC
};

enum class Kind {
  Tensor,
  Value,    ///< a number or text(s)
  Unknown,  ///< of a later version: its checksum is known, its meaning is not
};

/// One data set of a checkpoint file.
struct ManifestEntry {
  std::string name;  ///< path of the data set
  Kind kind = Kind::Value;
  std::string type;  ///< tensors: the name of a dtype; values: "int64", "uint64", "float64" or "text"
  std::uint64_t element_bytes = 0;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::string state_dict_key;       ///< of tensors; may be empty
  std::uint64_t offset = 0;         ///< in the file; 0 if it has no bytes
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;             ///< of all bytes
  std::vector<std::uint32_t> pieces{};  ///< CRC-32C of each piece; empty if the data set has only one
};

/// The table of contents of a file: everything that a reader needs besides the bytes.
struct Manifest {
  FileInfo info;
  std::uint64_t piece_bytes = 0;  ///< length of the pieces of data sets that have their own checksums
  std::vector<ManifestEntry> datasets;
};

/// The piece length of new files: small enough that reading and verifying some rows of a tensor reads little else;
/// large enough that the table stays short (11 bytes of JSON for each MiB).
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20U;

/// Data sets begin at multiples of this, so that a shorter gap between two of them is padding.
inline constexpr std::uint64_t kAlignment = 64;

/// Returns the manifest as JSON; docs/reference/checkpoint_format.md lists its fields.
[[nodiscard]] std::string manifest_to_json(const Manifest& manifest);

/// Parses a manifest; nothing if the text is not one. Ignores unknown fields and does not check the values: see
/// layout_problem().
[[nodiscard]] std::optional<Manifest> manifest_from_json(std::string_view text);

/// Returns what is impossible in a manifest of a file of `file_bytes` bytes, or an empty text: contradictory sizes,
/// data sets outside of the file or overlapping, missing checksums. A manifest that passes may be used for indexing.
[[nodiscard]] std::string layout_problem(const Manifest& manifest, std::uint64_t file_bytes);

/// Returns the product of the shape; nothing if it overflows or a dimension is negative.
[[nodiscard]] std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& shape);

/// The checksum of a part of a data set within one piece, which a rank reports for what it wrote.
struct Fragment {
  std::uint64_t dataset = 0;     ///< number of the data set in the manifest
  std::uint64_t first_byte = 0;  ///< offset in the data set
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;

  friend bool operator==(const Fragment&, const Fragment&) = default;
};

/// Appends the fragments of `bytes`, which begin at `first_byte` of a data set.
void sum_up(std::vector<Fragment>& fragments, std::uint64_t dataset, std::uint64_t first_byte,
            std::span<const std::byte> bytes);

/// Sorts the fragments and joins adjacent ones of the same piece.
void join(std::vector<Fragment>& fragments);

/// Serialises fragments in this machine's byte order, which is the same on all ranks.
[[nodiscard]] std::vector<std::byte> to_bytes(const std::vector<Fragment>& fragments);
[[nodiscard]] std::optional<std::vector<Fragment>> fragments_from_bytes(std::span<const std::byte> bytes);

/// Sets the checksums of all data sets from the fragments of all ranks. Returns a problem, or an empty text: every byte
/// must have been written by exactly one rank.
[[nodiscard]] std::string set_checksums(std::vector<ManifestEntry>& datasets, std::vector<Fragment> fragments);

}  // namespace rollcall::checkpoint::format

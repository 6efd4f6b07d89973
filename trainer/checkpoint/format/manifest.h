#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace rollcall::checkpoint::format {

/// Who wrote a file, when, in which version of the format.
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
  std::string type;  ///< tensors: a dtype's name; values: "int64", "uint64", "float64" or "text"
  std::uint64_t element_bytes = 0;
  std::vector<std::int64_t> shape;  ///< empty: a scalar
  std::string state_dict_key;       ///< of tensors; may be empty
  std::uint64_t offset = 0;         ///< in the file; 0 where there are no bytes
  std::uint64_t bytes = 0;
  std::uint32_t crc32c = 0;             ///< of all bytes
  std::vector<std::uint32_t> pieces{};  ///< CRC-32C of each piece; empty where the data set is no longer than one
};

/// The table of contents of a file: all that a reader needs besides the bytes themselves.
struct Manifest {
  FileInfo info;
  std::uint64_t piece_bytes = 0;  ///< data sets are summed in pieces of so many bytes from their own beginning
  std::vector<ManifestEntry> datasets;
};

/// Piece length of files that are written now: small enough that reading some rows of a tensor, and verifying them,
/// reads little else; large enough that the table stays short (11 bytes of JSON a MiB).
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20U;

/// Data sets begin at multiples of it; so what lies between two of them and is shorter is padding.
inline constexpr std::uint64_t kAlignment = 64;

/// JSON; docs/reference/checkpoint_format.md has its fields.
[[nodiscard]] std::string manifest_to_json(const Manifest& manifest);

/// Nothing where the text is no manifest; unknown fields are ignored. Contents are as found: see layout_problem().
[[nodiscard]] std::optional<Manifest> manifest_from_json(std::string_view text);

/// What is impossible about a manifest of a file of `file_bytes` bytes, or an empty text: sizes that contradict each
/// other, data sets outside of the file or over one another, too few checksums. Whoever passes this may index with it.
[[nodiscard]] std::string layout_problem(const Manifest& manifest, std::uint64_t file_bytes);

/// shape's product; nothing where it overflows or is negative.
[[nodiscard]] std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& shape);

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

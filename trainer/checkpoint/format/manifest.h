#pragma once

#include <cstdint>
#include <optional>
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
  Metadata,  ///< a number or text(s): a Value
  Unknown,   ///< of a later version: its checksum is known, its meaning is not
};

/// One data set of a checkpoint file.
struct ManifestEntry {
  std::string name;  ///< path of the data set
  Kind kind = Kind::Metadata;
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

/// JSON; docs/checkpoint_format.md has its fields.
[[nodiscard]] std::string manifest_to_json(const Manifest& manifest);

/// Nothing where the text is no manifest; unknown fields are ignored. Contents are as found: see layout_problem().
[[nodiscard]] std::optional<Manifest> manifest_from_json(std::string_view text);

/// What is impossible about a manifest of a file of `file_bytes` bytes, or an empty text: sizes that contradict each
/// other, data sets outside of the file or over one another, too few checksums. Whoever passes this may index with it.
[[nodiscard]] std::string layout_problem(const Manifest& manifest, std::uint64_t file_bytes);

/// shape's product; nothing where it overflows or is negative.
[[nodiscard]] std::optional<std::uint64_t> element_count(const std::vector<std::int64_t>& shape);

}  // namespace rollcall::checkpoint::format

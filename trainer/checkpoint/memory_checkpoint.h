#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/source.h"
#include "trainer/torch.h"

// Checkpoints in main memory instead of files: each rank holds its own part and the parts of other ranks.
namespace rollcall::checkpoint {

/// The name of one rank's part of a checkpoint. Newer ones are greater.
struct PartName {
  std::int64_t generation = 0;  ///< of the world that created it
  std::int64_t step = 0;        ///< of the training
  std::int64_t number = 0;      ///< of the copy in that world, as the end of a step may change the state
  std::uint32_t owners = 1;     ///< number of ranks in that world, each with a part
  std::uint32_t owner = 0;      ///< rank that this part belongs to
  friend auto operator<=>(const PartName&, const PartName&) = default;  // NOLINT(modernize-use-nullptr)
};

/// One rank's part of a checkpoint.
struct MemoryPart {
  PartName name;
  at::Tensor memory;            ///< uint8 [n] on the host: a table, followed by the bytes of all tensors
  std::size_t table_bytes = 0;  ///< size of the table, which has the layout of the rest and all values (CBOR)
  std::uint32_t crc32c = 0;     ///< of `memory`

  // Both require a sound part.
  [[nodiscard]] std::span<const std::uint8_t> table() const;
  [[nodiscard]] at::Tensor data() const;  ///< the bytes after the table

  [[nodiscard]] bool is_sound() const;  ///< whether the bytes match their checksum
};

/// Copies `content` into a part. c10::Error: there is no memory for it.
[[nodiscard]] MemoryPart make_part(const PartName& name, const format::Content& content);

[[nodiscard]] std::span<const std::byte> bytes_of(const at::Tensor& bytes);

/// The checkpoint that the parts of all owners form, known by their tables alone. A loader first requests data by
/// read() and receives it when take() is given the parts' bytes, in any order and in pieces, so that a rank needs
/// memory only for its requests and one piece. Move only; one thread.
class MemoryCheckpoint final : public format::CheckpointSource {
 public:
  /// Creates the checkpoint from the `tables` of all owners, by owner; a value is taken from the first table that has
  /// it. Errors (Internal): a table was not made by make_part(); a byte of a data set is in no part or in two.
  [[nodiscard]] static Result<MemoryCheckpoint> of(std::string path,
                                                   const std::vector<std::vector<std::uint8_t>>& tables);

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const std::vector<format::ManifestEntry>& datasets() const override { return datasets_; }
  [[nodiscard]] const format::ManifestEntry* find(std::string_view name) const override;
  /// Stores the requests. take() fills their memory, which must stay valid until then.
  [[nodiscard]] Result<void> read(std::span<const format::ReadRequest> requests, format::VerifyLevel level,
                                  std::size_t threads) const override;
  [[nodiscard]] Result<std::map<std::string, format::Value>> values() const override { return values_; }

  /// Returns the bytes of the data of `owner`'s part.
  [[nodiscard]] std::uint64_t part_bytes(std::uint32_t owner) const { return parts_[owner].bytes; }
  /// Copies a `piece` of the data of `owner`'s part that starts at `first_byte`. Pass each byte once.
  void take(std::uint32_t owner, std::uint64_t first_byte, std::span<const std::byte> piece);
  /// Returns the number of requested bytes that have not arrived.
  [[nodiscard]] std::uint64_t missing() const { return missing_; }

 private:
  /// A range of bytes of a data set in a part.
  struct Extent {
    std::uint64_t offset = 0;      ///< offset in the part
    std::size_t dataset = 0;       ///< number of the data set
    std::uint64_t first_byte = 0;  ///< offset in the data set
    std::uint64_t bytes = 0;
  };
  struct Part {
    std::vector<Extent> extents;  ///< by offset
    std::uint64_t bytes = 0;
  };

  MemoryCheckpoint() = default;
  [[nodiscard]] bool add(const std::vector<std::uint8_t>& table);
  /// Returns whether each byte of each data set is in exactly one part.
  [[nodiscard]] bool is_whole() const;
  void give(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> bytes);

  std::string path_;
  std::vector<format::ManifestEntry> datasets_;
  std::map<std::string, std::size_t, std::less<>> number_of_;
  std::map<std::string, format::Value> values_;
  std::vector<Part> parts_;                                         ///< by owner
  mutable std::vector<std::vector<format::ReadRequest>> requests_;  ///< by number of the data set
  mutable std::uint64_t missing_ = 0;
};

}  // namespace rollcall::checkpoint

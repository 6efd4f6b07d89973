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

// A checkpoint that is in no file: each rank's part of it lies in main memory, its own and that of other ranks.
namespace rollcall::checkpoint {

/// Of which checkpoint, and whose part. Newer ones are greater.
struct PartName {
  std::int64_t generation = 0;  ///< of the world that made it
  std::int64_t step = 0;        ///< of the training
  std::int64_t number = 0;      ///< of the copy in that world: a step's end may change what is to be gone on with
  std::uint32_t owners = 1;     ///< ranks of that world, each with a part
  std::uint32_t owner = 0;      ///< this part's
  friend auto operator<=>(const PartName&, const PartName&) = default;  // NOLINT(modernize-use-nullptr)
};

/// What one rank gives to a checkpoint.
struct MemoryPart {
  PartName name;
  at::Tensor memory;            ///< uint8 [n], on the host: a table, and all tensors' bytes one after the other
  std::size_t table_bytes = 0;  ///< what is where in the rest, and all values (CBOR)
  std::uint32_t crc32c = 0;     ///< of `memory`

  // Of a sound part:
  [[nodiscard]] std::span<const std::uint8_t> table() const;
  [[nodiscard]] at::Tensor data() const;  ///< what is behind the table

  [[nodiscard]] bool is_sound() const;  ///< its bytes are those that it was made of
};

/// Copies `content`. c10::Error: there is no memory for it.
[[nodiscard]] MemoryPart make_part(const PartName& name, const format::Content& content);

[[nodiscard]] std::span<const std::byte> bytes_of(const at::Tensor& bytes);

/// The checkpoint that the parts of all owners make up, known by their tables alone. Whoever loads from it asks first,
/// by read(), and is given what it asked for when the parts' bytes are shown by take(), in any order and in pieces: no
/// rank ever needs memory for more than one piece besides what it asked for. Move only; one thread.
class MemoryCheckpoint final : public format::CheckpointSource {
 public:
  /// `tables`: of all owners, by owner; the values are those of the first that has them. Errors (Internal): something
  /// else than make_part() has made; a byte of a data set is in no part, or in two.
  [[nodiscard]] static Result<MemoryCheckpoint> of(std::string path,
                                                   const std::vector<std::vector<std::uint8_t>>& tables);

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] const std::vector<format::ManifestEntry>& datasets() const override { return datasets_; }
  [[nodiscard]] const format::ManifestEntry* find(std::string_view name) const override;
  /// Keeps the requests; take() fills their memory, which stays where it is until then.
  [[nodiscard]] Result<void> read(std::span<const format::ReadRequest> requests, format::VerifyLevel level,
                                  std::size_t threads) const override;
  [[nodiscard]] Result<std::map<std::string, format::Value>> values() const override { return values_; }

  /// Bytes of the data of `owner`'s part.
  [[nodiscard]] std::uint64_t part_bytes(std::uint32_t owner) const { return parts_[owner].bytes; }
  /// `piece`: what lies in the data of `owner`'s part from `first_byte` on. Each byte is to be shown once.
  void take(std::uint32_t owner, std::uint64_t first_byte, std::span<const std::byte> piece);
  /// Bytes that were asked for and have not been given.
  [[nodiscard]] std::uint64_t missing() const { return missing_; }

 private:
  /// Bytes of a data set that a part has.
  struct Stretch {
    std::uint64_t place = 0;       ///< in the part
    std::size_t dataset = 0;       ///< its number
    std::uint64_t first_byte = 0;  ///< in the data set
    std::uint64_t bytes = 0;
  };
  struct Part {
    std::vector<Stretch> stretches;  ///< by place
    std::uint64_t bytes = 0;
  };

  MemoryCheckpoint() = default;
  [[nodiscard]] bool add(const std::vector<std::uint8_t>& table);
  /// Whether each byte of each data set is in one part, and in one only.
  [[nodiscard]] bool is_whole() const;
  void give(const Stretch& stretch, std::uint64_t first_byte, std::span<const std::byte> bytes);

  std::string path_;
  std::vector<format::ManifestEntry> datasets_;
  std::map<std::string, std::size_t, std::less<>> number_of_;
  std::map<std::string, format::Value> values_;
  std::vector<Part> parts_;                                         ///< by owner
  mutable std::vector<std::vector<format::ReadRequest>> requests_;  ///< by number of the data set
  mutable std::uint64_t missing_ = 0;
};

}  // namespace rollcall::checkpoint

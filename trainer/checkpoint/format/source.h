#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/content.h"
#include "trainer/checkpoint/format/manifest.h"
#include "trainer/checkpoint/format/options.h"

namespace rollcall::checkpoint::format {

/// A range of a data set, and the memory into which it is read.
struct ReadRequest {
  const ManifestEntry* entry = nullptr;
  std::uint64_t first_byte = 0;
  std::span<std::byte> into;
};

/// A checkpoint to load from: a file, or the memory of ranks.
class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;

  /// Returns the path of the file, or a description for people.
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// Returns all data sets, with shapes and types.
  [[nodiscard]] virtual const std::vector<ManifestEntry>& datasets() const = 0;
  /// Returns the data set, or null if there is none of that path.
  [[nodiscard]] virtual const ManifestEntry* find(std::string_view name) const = 0;
  /// Fills the memory of the requests, before its return or later, depending on the kind of source. A range outside of
  /// its data set is a bug and fails an assertion.
  [[nodiscard]] virtual Result<void> read(std::span<const ReadRequest> requests, VerifyLevel level,
                                          std::size_t threads) const = 0;
  /// Returns the number or text(s) of all data sets that are not tensors, by path, except those of unknown kinds.
  [[nodiscard]] virtual Result<std::map<std::string, Value>> values() const = 0;

 protected:
  CheckpointSource() = default;
  CheckpointSource(const CheckpointSource&) = default;
  CheckpointSource(CheckpointSource&&) = default;
  CheckpointSource& operator=(const CheckpointSource&) = default;
  CheckpointSource& operator=(CheckpointSource&&) = default;
};

}  // namespace rollcall::checkpoint::format

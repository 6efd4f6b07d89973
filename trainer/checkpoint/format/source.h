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

/// A stretch of a data set, and the memory that it is to be read into.
struct ReadRequest {
  const ManifestEntry* entry = nullptr;
  std::uint64_t first_byte = 0;
  std::span<std::byte> into;
};

/// A checkpoint to load from, wherever it lies: a file, or the memory of ranks.
class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;

  /// For people: the path of a file.
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// All data sets, with shapes and types.
  [[nodiscard]] virtual const std::vector<ManifestEntry>& datasets() const = 0;
  /// Null where there is none of that path.
  [[nodiscard]] virtual const ManifestEntry* find(std::string_view name) const = 0;
  /// Fills the memory that the requests name, by its return or later: see the kind of source. A stretch that does not
  /// lie in its data set is a bug: an assertion.
  [[nodiscard]] virtual Result<void> read(std::span<const ReadRequest> requests, VerifyLevel level,
                                          std::size_t threads) const = 0;
  /// The number or text(s) of all data sets that are no tensors, by path; those of unknown kinds are left out.
  [[nodiscard]] virtual Result<std::map<std::string, Value>> values() const = 0;

 protected:
  CheckpointSource() = default;
  CheckpointSource(const CheckpointSource&) = default;
  CheckpointSource(CheckpointSource&&) = default;
  CheckpointSource& operator=(const CheckpointSource&) = default;
  CheckpointSource& operator=(CheckpointSource&&) = default;
};

}  // namespace rollcall::checkpoint::format

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/data/packed/packed_tables.h"

namespace rollcall::pack {

/// What became of a file. The numbers are written into journals.
enum class Outcome : std::uint8_t {
  Kept = 0,      ///< its own bytes
  Repacked = 1,  ///< the same picture in tiles
  Resized = 2,   ///< smaller, encoded anew
  ResizedAndRepacked = 3,
  Bad = 4,  ///< cannot be used
};

/// By what a file is known to be the same as before.
struct SourceFacts {
  std::int64_t bytes = -1;
  std::int64_t modified_ns = 0;

  friend bool operator==(const SourceFacts&, const SourceFacts&) = default;
};

/// A file on its way into the packed file, or why it cannot be.
struct PreparedSample {
  Outcome outcome = Outcome::Bad;
  SourceFacts source;
  data::PackedEntry entry;                 ///< all but the offset
  std::vector<std::byte> stored;           ///< picture and tile lengths
  std::string note;                        ///< Bad: why; Kept or Resized although repacking was asked for: why
  ExitCode exit_code = ExitCode::Success;  ///< of Bad
};

}  // namespace rollcall::pack

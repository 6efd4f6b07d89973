#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "trainer/data/sources/left_out.h"
#include "trainer/data/sources/sample_index.h"
#include "trainer/data/sources/source_indices.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// The pictures of one shard with their labels, and the members that are left out.
struct ShardContent {
  SampleIndexBuilder pictures;
  LeftOut left_out;
};

/// Reads the samples of an archive as WebDataset defines them: consecutive members with the same KEY, which is their
/// name up to the first dot after the last '/', form one sample. The rest of the name is the kind of the member, in any
/// case. Names without a dot or with a leading one ("._x" of macOS) belong to no sample.
///
/// A sample without a picture or with a dot in its key is left out and counted. Errors: BadData: a damaged or
/// compressed archive, a picture without a label, a picture that is a link or sparse, a repeated key, two pictures with
/// one key, a label that is not a number; NoInput, InputOutput: cannot be read; Unavailable: `indices` requests a stop.
[[nodiscard]] Result<void> read_shard(const std::string& path, const storage::File& file, std::uint32_t shard,
                                      SourceIndices& indices, ShardContent& content);

/// Returns a BadData error that says what a shard must contain.
[[nodiscard]] Error unusable_shard(const std::string& path, std::string reason);
[[nodiscard]] Error unreadable_shard(const std::string& path, int error_number, ErrorKind kind);

}  // namespace rollcall::data

#pragma once

#include <cstdint>
#include <string>

#include "runtime/base/result.h"
#include "trainer/data/sources/left_out.h"
#include "trainer/data/sources/sample_index.h"
#include "trainer/data/sources/source_indices.h"
#include "trainer/storage/file.h"

namespace rollcall::data {

/// The pictures of one shard with their labels, and what else is in it.
struct ShardContent {
  SampleIndexBuilder pictures;
  LeftOut left_out;
};

/// Joins the members of an archive to samples, as WebDataset does: those that follow each other with one KEY, their
/// name up to the first dot behind the last '/'; what follows the dot tells what they are, in any case. Names without a
/// dot, and those that begin with one ("._x", of macOS), belong to no sample.
///
/// A sample without a picture or with a dot in its key is left out, and counted. Errors: BadData: a damaged or
/// compressed archive, a picture without a label, one that is a link or sparse, a key that comes twice, two pictures of
/// one key, a label that is no number; NoInput, InputOutput: cannot be read; Unavailable: `indices` say stop.
[[nodiscard]] Result<void> read_shard(const std::string& path, const storage::File& file, std::uint32_t shard,
                                      SourceIndices& indices, ShardContent& content);

/// BadData, with what a shard must be.
[[nodiscard]] Error unusable_shard(const std::string& path, std::string reason);
[[nodiscard]] Error unreadable_shard(const std::string& path, int error_number, ErrorKind kind);

}  // namespace rollcall::data

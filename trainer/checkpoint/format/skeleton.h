#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/format/dataset.h"
#include "trainer/checkpoint/format/writer.h"

namespace rollcall::checkpoint::format {

/// Creates `path`, which must not exist, with all groups, data sets, attributes and checksums, `complete` being 0. Room
/// for the data is reserved but not written; the file offset of each data set is returned, in the order of `datasets`
/// (0 for an empty one).
///
/// Errors: CannotCreate where the file cannot be created, InputOutput where it cannot be written, Internal where HDF5
/// refuses a data set.
[[nodiscard]] Result<std::vector<off_t>> create_skeleton(const std::string& path, const std::vector<Dataset>& datasets,
                                                         const WriterOptions& options);

/// Sets the root attribute `complete`. Errors (InputOutput): as above.
[[nodiscard]] Result<void> mark_complete(const std::string& path);

}  // namespace rollcall::checkpoint::format

#pragma once

#include <memory>
#include <string>

#include "trainer/data/source.h"

namespace rollcall::data {

/// Opens what `path` names, told by what is there:
///  - a file: a packed file, as rollcall-pack writes it, or one WebDataset shard (*.tar);
///  - a folder with *.tar files: these shards, sorted by name; any other folder: a class-per-folder tree;
///  - otherwise a pattern of shards with '*', '?', '[...]' and WebDataset's "{000..146}": "/data/train-{000..146}.tar".
/// Errors: NoInput: nothing of that name; else those of the source. One thread at a time (HDF5).
[[nodiscard]] Result<std::shared_ptr<const ImageSource>> open_source(const std::string& path);

}  // namespace rollcall::data

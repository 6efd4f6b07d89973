#pragma once

#include <optional>
#include <string>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::exchange {

/// What to do in Python with a model that lies in several files, of which `path` is one, their table or their folder:
/// torch.distributed.checkpoint's, DeepSpeed's, shards of safetensors and torch.save. Nothing for other paths, which
/// are not looked into. Errors: NoInput for a folder, else BadData.
[[nodiscard]] std::optional<Error> several_files(const std::string& path);

}  // namespace rollcall::checkpoint::exchange

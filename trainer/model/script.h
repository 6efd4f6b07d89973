#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "runtime/base/result.h"
#include "trainer/model/image_classifier.h"

namespace rollcall::model {

/// What a script must take and return.
struct ScriptShape {
  std::int64_t num_classes = 1000;
  std::set<std::int64_t> image_sizes;  ///< height and width of the images, in pixels
};

/// Loads a TorchScript file, which Python's `torch.jit.script(model).save(path)` wrote, on the CPU. Its operators run
/// as they are written: the profiling executor would fuse them after some runs, with other last bits, and a training
/// that resumes would differ from one that was not interrupted. Loading runs code of the file.
///
/// Errors (BadData): it is no TorchScript file, or its forward() does not return logits of `shape` for images; it has
/// no parameters of float32, or some share their memory; it was traced; it replaces buffers instead of changing them.
[[nodiscard]] Result<Model> load_script(const std::string& path, const ScriptShape& shape);

}  // namespace rollcall::model

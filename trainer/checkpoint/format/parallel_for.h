#pragma once

#include <cstddef>
#include <functional>

#include "runtime/base/result.h"

namespace rollcall::checkpoint::format {

/// Runs work(i, worker) for i = 0 ... count-1 on up to `threads` threads, this one among them; `worker` < threads tells
/// which. After a failure no further work is begun. The first failure's Error, of the lowest i that failed. `work` must
/// not throw.
[[nodiscard]] Result<void> parallel_for(std::size_t count, std::size_t threads,
                                        const std::function<Result<void>(std::size_t i, std::size_t worker)>& work);

}  // namespace rollcall::checkpoint::format

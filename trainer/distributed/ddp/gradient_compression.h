#pragma once

#include <c10/core/ScalarType.h>
#include <memory>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "trainer/distributed/process_group/collectives.h"

namespace rollcall::parallel {

/// A communication hook for c10d::Reducer that averages a bucket in `type`: the gradients are rounded to it, divided by
/// the number of ranks so that float16 does not overflow, added up by one all-reduce, and put back into the bucket.
/// What fp16_compress_hook and bf16_compress_hook of PyTorch do.
[[nodiscard]] std::unique_ptr<c10d::CommHookInterface> compress_gradients(const process_group::Group& group,
                                                                          c10::ScalarType type);

}  // namespace rollcall::parallel

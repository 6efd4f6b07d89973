#pragma once

#include <c10/core/ScalarType.h>
#include <cstddef>
#include <optional>

namespace rollcall::parallel {

/// How DataParallel synchronises. The same on every rank.
struct DataParallelOptions {
  /// Look for parameters that the loss does not depend on, in each forward's graph; without it a step that leaves some
  /// out is an error in the next one. They keep their gradient where no rank used them.
  bool find_unused_parameters = false;
  /// Every step uses the same parameters in the same order: found out in the first one, unused ones included.
  bool static_graph = false;
  /// Type in which gradients travel (bfloat16 or half), divided by the number of ranks before they are added up.
  /// Nothing: their own.
  std::optional<c10::ScalarType> compression;
  /// Give every rank rank 0's buffers (BatchNorm statistics) before each step. Off: each rank keeps its own until
  /// sync_buffers().
  bool broadcast_buffers = true;
  /// PyTorch's own figures: the first bucket is small so that communication starts early.
  std::size_t first_bucket_bytes = std::size_t{1} << 20;
  std::size_t bucket_bytes = std::size_t{25} << 20;
};

}  // namespace rollcall::parallel

// Computes mean and variance of batches, and of several ranks' batches together.
#include "trainer/device/cuda/kernels/launch.h"
#include "trainer/device/cuda/kernels/statistics_bodies.h"

namespace rollcall::device::kernels {

std::size_t workspace_bytes(const Shape& shape) {
  const unsigned k = shape.type == ElementType::Float32 ? kVector<float> : kVector<Half>;
  const Tiling tiling = tiling_of(shape.rows, shape.channels, shape.channels % k == 0 ? k : 1);
  return static_cast<std::size_t>(tiling.row_blocks * moment_numbers(shape.channels)) * sizeof(double);
}

Status batch_norm_statistics(const BatchNormStatistics& of, Stream stream) {
  if (!valid(of.shape, {of.x}) ||
      !lie_on(sizeof(double), {of.workspace, of.moments != nullptr ? of.moments : of.statistics.count})) {
    return kInvalidValue;
  }
  auto* const parts = static_cast<double*>(of.workspace);
  return with_vector(of.shape, [&]<typename T, unsigned K>(const Tiling& tiling) -> Status {
    const Status status = launch_reduction(PartialStatistics<T, K>{tiling, static_cast<const T*>(of.x), parts}, stream);
    const Tiling together = merging(tiling.row_blocks, tiling.channels);
    return status != kSuccess ? status
                              : launch_reduction(MergedStatistics{together, parts, of.moments, of.statistics}, stream);
  });
}

Status merge_statistics(const MergeStatistics& of, Stream stream) {
  if (of.ranks < 1 || of.channels < 1 || !lie_on(sizeof(double), {of.moments, of.statistics.count})) {
    return kInvalidValue;
  }
  return launch_reduction(MergedStatistics{merging(of.ranks, of.channels), of.moments, nullptr, of.statistics}, stream);
}

}  // namespace rollcall::device::kernels

// Computes mean and variance of batches, and of several ranks' batches together.
#include "trainer/device/cuda/kernels/launch.h"
#include "trainer/device/cuda/kernels/statistics_bodies.h"

namespace rollcall::device::kernels {

namespace {

constexpr unsigned vector_of(const Shape& shape) {
  const unsigned k = shape.type == ElementType::Float32 ? kVector<float> : kVector<Half>;
  return shape.channels % k == 0 ? k : 1;
}

}  // namespace

std::size_t workspace_bytes(const Shape& shape) {
  const Tiling tiling = tiling_of(shape.rows, shape.channels, vector_of(shape));
  const std::int64_t numbers = 2 * shape.channels + tiling.channel_blocks;
  return static_cast<std::size_t>((tiling.row_blocks + kGroups) * numbers) * sizeof(double);
}

std::size_t mask_bytes(const Shape& shape) {
  return static_cast<std::size_t>(shape.rows * (shape.channels / vector_of(shape)));
}

Status batch_norm_statistics(const BatchNormStatistics& of, Stream stream) {
  if (!valid(of.shape, {of.x}) ||
      !lie_on(sizeof(double), {of.workspace, of.moments != nullptr ? of.moments : of.statistics.count})) {
    return kInvalidValue;
  }
  auto* const parts = static_cast<double*>(of.workspace);
  return with_vector(of.shape, [&]<typename T, unsigned K>(const Tiling& tiling) -> Status {
    const PartialStatistics<T, K> body{tiling, static_cast<const T*>(of.x), parts};
    const MomentLayout layout = body.layout();
    const MergedStatistics together{merging(tiling.row_blocks, tiling.channels), layout,     parts,
                                    parts + tiling.row_blocks * layout.size(),   of.moments, of.statistics};
    return launch_merged_reduction(body, together, of.counters, stream);
  });
}

Status merge_statistics(const MergeStatistics& of, Stream stream) {
  if (of.ranks < 1 || of.channels < 1 || !lie_on(sizeof(double), {of.moments, of.statistics.count})) {
    return kInvalidValue;
  }
  const MergedStatistics together{
      merging(of.ranks, of.channels), {of.channels, of.channels}, of.moments, nullptr, nullptr, of.statistics};
  return launch_reduction(together, stream);
}

}  // namespace rollcall::device::kernels

// Batch normalisation after its statistics, with the operations that follow it in the same pass, and its backward.
#include "trainer/device/cuda/kernels/batch_norm_bodies.h"
#include "trainer/device/cuda/kernels/launch.h"

namespace rollcall::device::kernels {
namespace {

/// Calls run.operator()<T, K, epilogue>(tiling).
template <typename Run>
Status with_epilogue(const Shape& shape, Epilogue epilogue, const Run& run) {
  return with_vector(shape, [&]<typename T, unsigned K>(const Tiling& tiling) -> Status {
    switch (epilogue) {
      case Epilogue::None:
        return run.template operator()<T, K, Epilogue::None>(tiling);
      case Epilogue::Relu:
        return run.template operator()<T, K, Epilogue::Relu>(tiling);
      case Epilogue::AddRelu:
        return run.template operator()<T, K, Epilogue::AddRelu>(tiling);
    }
    return kInvalidValue;
  });
}

}  // namespace

Status batch_norm_add_relu_forward(const BatchNormForward& of, Stream stream) {
  const bool adds = of.epilogue == Epilogue::AddRelu;
  if (!valid(of.shape, {of.x, of.y}) || (adds && !valid(of.shape, {of.added}))) {
    return kInvalidValue;
  }
  return with_epilogue(of.shape, of.epilogue, [&]<typename T, unsigned K, Epilogue kEpilogue>(const Tiling& tiling) {
    const Forward<T, K, kEpilogue> body{tiling, static_cast<const T*>(of.x), static_cast<const T*>(of.added),
                                        static_cast<T*>(of.y), of.affine};
    return launch_tiles(body, stream);
  });
}

Status batch_norm_add_relu_backward_sums(const BatchNormBackwardSums& of, Stream stream) {
  const bool adds = of.epilogue == Epilogue::AddRelu;
  if (!valid(of.shape, {of.gradient, of.x}) || (adds && !valid(of.shape, {of.y, of.below})) ||
      !lie_on(sizeof(double), {of.workspace, of.sums})) {
    return kInvalidValue;
  }
  auto* const parts = static_cast<double*>(of.workspace);
  return with_epilogue(of.shape, of.epilogue, [&]<typename T, unsigned K, Epilogue kEpilogue>(const Tiling& tiling) {
    const PartialGradientSums<T, K, kEpilogue> body{tiling,
                                                    static_cast<const T*>(of.gradient),
                                                    static_cast<const T*>(of.x),
                                                    static_cast<const T*>(of.y),
                                                    static_cast<T*>(of.below),
                                                    of.affine,
                                                    parts};
    const Status status = launch_reduction(body, stream);
    const MergedGradientSums together{merging(tiling.row_blocks, tiling.channels),
                                      parts,
                                      of.affine.inverse_stddev,
                                      of.sums,
                                      of.weight_gradient,
                                      of.bias_gradient};
    return status != kSuccess ? status : launch_reduction(together, stream);
  });
}

Status batch_norm_add_relu_backward_input(const BatchNormBackwardInput& of, Stream stream) {
  if (!valid(of.shape, {of.gradient, of.x, of.x_gradient})) {
    return kInvalidValue;
  }
  // With AddRelu the kernel of the sums has written the gradient before the epilogue.
  const Epilogue above = of.epilogue == Epilogue::Relu ? Epilogue::Relu : Epilogue::None;
  return with_vector(of.shape, [&]<typename T, unsigned K>(const Tiling& tiling) -> Status {
    const auto launch = [&]<Epilogue kEpilogue>() {
      const InputGradient<T, K, kEpilogue> body{tiling,
                                                static_cast<const T*>(of.gradient),
                                                static_cast<const T*>(of.x),
                                                static_cast<T*>(of.x_gradient),
                                                of.affine,
                                                of.sums,
                                                of.count};
      return launch_tiles(body, stream);
    };
    return above == Epilogue::Relu ? launch.template operator()<Epilogue::Relu>()
                                   : launch.template operator()<Epilogue::None>();
  });
}

}  // namespace rollcall::device::kernels

// Batch normalisation after its statistics, with the operations that follow it in the same pass, and its backward.
#include "trainer/device/cuda/kernels/launch.h"
#include "trainer/device/cuda/kernels/pooling_bodies.h"

namespace rollcall::device::kernels {
namespace {

/// Calls run.operator()<T, K, epilogue>(tiling).
template <typename Run>
Status with_epilogue(const Shape& shape, Epilogue epilogue, const Run& run) {
  if (epilogue == Epilogue::ReluMaxPool) {
    return with_vector<4>(shape, [&]<typename T, unsigned K>(const Tiling& tiling) -> Status {
      return run.template operator()<T, K, Epilogue::ReluMaxPool>(tiling);
    });
  }
  return with_vector(shape, [&]<typename T, unsigned K>(const Tiling& tiling) -> Status {
    switch (epilogue) {
      case Epilogue::None:
        return run.template operator()<T, K, Epilogue::None>(tiling);
      case Epilogue::Relu:
        return run.template operator()<T, K, Epilogue::Relu>(tiling);
      case Epilogue::AddRelu:
        return run.template operator()<T, K, Epilogue::AddRelu>(tiling);
      case Epilogue::ReluMaxPool:
        break;
    }
    return kInvalidValue;
  });
}

/// Returns the shape of y.
Shape output_shape(const Shape& x, Epilogue epilogue, const Image& image) {
  if (epilogue != Epilogue::ReluMaxPool) {
    return x;
  }
  const std::int64_t images = x.rows / std::max<std::int64_t>(image.height * image.width, 1);
  return {x.type, images * ((image.height + 1) / 2) * ((image.width + 1) / 2), x.channels};
}

/// Returns whether x is images of this size.
bool is_image(const Shape& x, Epilogue epilogue, const Image& image) {
  return epilogue != Epilogue::ReluMaxPool ||
         (image.height > 0 && image.width > 0 && x.rows % (image.height * image.width) == 0);
}

/// Returns the gradients that a pass with this epilogue reads.
template <typename T, unsigned K, Epilogue kEpilogue>
auto gradients_of(const OutputGradients& of, const std::uint8_t* kept, const Image& image) {
  const UpToTwoGradients<T, K> gradients{static_cast<const T*>(of.first), static_cast<const T*>(of.second)};
  if constexpr (kEpilogue == Epilogue::ReluMaxPool) {
    return Unpooled<T, K>{gradients, kept, PooledImage(image)};
  } else if constexpr (kEpilogue == Epilogue::AddRelu) {
    return gradients;
  } else {
    return OneGradient<T, K>{gradients.first};
  }
}

}  // namespace

Status batch_norm_add_relu_forward(const BatchNormForward& of, Stream stream) {
  const bool adds = of.epilogue == Epilogue::AddRelu;
  const Shape of_y = output_shape(of.shape, of.epilogue, of.image);
  if (!is_image(of.shape, of.epilogue, of.image) || !valid(of.shape, {of.x}) || !valid(of_y, {of.y}) ||
      (adds && !valid(of.shape, {of.added}))) {
    return kInvalidValue;
  }
  return with_epilogue(of_y, of.epilogue, [&]<typename T, unsigned K, Epilogue kEpilogue>(const Tiling& tiling) {
    const auto* const x = static_cast<const T*>(of.x);
    auto* const y = static_cast<T*>(of.y);
    if constexpr (kEpilogue == Epilogue::ReluMaxPool) {
      const PooledForward<T, K> body{tiling, PooledImage(of.image), x, y, of.kept, of.affine, of.backwards};
      return launch_tiles(body, stream);
    } else {
      const Forward<T, K, kEpilogue> body{tiling,    x,           static_cast<const T*>(of.added), y, of.kept,
                                          of.affine, of.backwards};
      return launch_tiles(body, stream);
    }
  });
}

Status batch_norm_add_relu_backward_sums(const BatchNormBackwardSums& of, Stream stream) {
  const bool adds = of.epilogue == Epilogue::AddRelu;
  const bool pools = of.epilogue == Epilogue::ReluMaxPool;
  const Shape of_y = output_shape(of.shape, of.epilogue, of.image);
  const void* const second = of.gradients.second;
  if (!is_image(of.shape, of.epilogue, of.image) || !valid(of_y, {of.gradients.first}) || !valid(of.shape, {of.x}) ||
      (second != nullptr && !(valid(of_y, {second}) && (adds || pools))) || (adds && !valid(of.shape, {of.below})) ||
      (adds && of.kept == nullptr && !valid(of.shape, {of.y})) ||
      (pools && of.shape.rows > 0 && !lie_on(8, {of.kept})) || !lie_on(sizeof(double), {of.workspace, of.sums})) {
    return kInvalidValue;
  }
  auto* const parts = static_cast<double*>(of.workspace);
  return with_epilogue(of.shape, of.epilogue, [&]<typename T, unsigned K, Epilogue kEpilogue>(const Tiling& tiling) {
    const auto gradients = gradients_of<T, K, kEpilogue>(of.gradients, of.kept, of.image);
    const PartialGradientSums<T, K, kEpilogue, decltype(gradients)> body{tiling,
                                                                         gradients,
                                                                         static_cast<const T*>(of.x),
                                                                         static_cast<const T*>(of.y),
                                                                         of.kept,
                                                                         static_cast<T*>(of.below),
                                                                         of.affine,
                                                                         parts};
    const MergedGradientSums together{merging(tiling.row_blocks, tiling.channels),
                                      parts,
                                      parts + 2 * tiling.channels * tiling.row_blocks,
                                      of.affine.inverse_stddev,
                                      of.sums,
                                      of.weight_gradient,
                                      of.bias_gradient};
    return launch_merged_reduction(body, together, of.counters, stream);
  });
}

Status batch_norm_add_relu_backward_input(const BatchNormBackwardInput& of, Stream stream) {
  const bool pools = of.epilogue == Epilogue::ReluMaxPool;
  const Shape of_y = output_shape(of.shape, of.epilogue, of.image);
  if (!is_image(of.shape, of.epilogue, of.image) || !valid(of_y, {of.gradients.first}) ||
      !valid(of.shape, {of.x, of.x_gradient}) || (of.gradients.second != nullptr && !pools) ||
      (pools && of.shape.rows > 0 && !lie_on(8, {of.kept}))) {
    return kInvalidValue;
  }
  // With AddRelu the kernel of the sums has written the gradient before the epilogue.
  const Epilogue above = of.epilogue == Epilogue::AddRelu ? Epilogue::None : of.epilogue;
  return with_epilogue(of.shape, above, [&]<typename T, unsigned K, Epilogue kEpilogue>(const Tiling& tiling) {
    if constexpr (kEpilogue == Epilogue::AddRelu) {
      return kInvalidValue;  // not reached
    } else {
      const auto gradients = gradients_of<T, K, kEpilogue>(of.gradients, of.kept, of.image);
      const InputGradient<T, K, kEpilogue, decltype(gradients)> body{
          tiling,   gradients,   static_cast<const T*>(of.x), static_cast<T*>(of.x_gradient), of.affine, of.sums,
          of.count, of.backwards};
      return launch_tiles(body, stream);
    }
  });
}

}  // namespace rollcall::device::kernels

// Normalises uint8 images, and converts gradients to other types and scales.
#include "trainer/device/cuda/kernels/elementwise_bodies.h"
#include "trainer/device/cuda/kernels/launch.h"

namespace rollcall::device::kernels {
namespace {

template <typename From, typename To>
Status launch_cast(const CastAndScale& of, Stream stream) {
  using Body = ScaledCast<From, To>;
  const int blocks = blocks_for(of.count, Body::K);
  const Body body{{of.count, blocks}, static_cast<const From*>(of.from), static_cast<To*>(of.to), of.scale};
  return launch_for_each(body, Grid(static_cast<unsigned>(blocks)), stream);
}

}  // namespace

Status normalise_images(const NormaliseImages& of, Stream stream) {
  if (of.pixels < 0 || (of.pixels > 0 && !(lie_on(16, {of.images}) && lie_on(8, {of.levels})))) {
    return kInvalidValue;
  }
  return with_type(of.type, [&]<typename T>() {
    using Body = ImageNormalisation<T>;
    const int blocks = blocks_for(3 * of.pixels, Body::K);
    const Body body{{3 * of.pixels, blocks},
                    of.levels,
                    static_cast<T*>(of.images),
                    {of.scale[0], of.scale[1], of.scale[2]},
                    {of.bias[0], of.bias[1], of.bias[2]}};
    return launch_for_each(body, Grid(static_cast<unsigned>(blocks)), stream);
  });
}

Status cast_and_scale(const CastAndScale& of, Stream stream) {
  if (of.count < 0 || (of.count > 0 && !lie_on(16, {of.from, of.to})) || !lie_on(sizeof(float), {of.scale})) {
    return kInvalidValue;
  }
  if (of.from_type == ElementType::Float32) {
    return with_type(of.to_type, [&]<typename To>() { return launch_cast<float, To>(of, stream); });
  }
  if (of.to_type != ElementType::Float32) {
    return kInvalidValue;
  }
  return with_type(of.from_type, [&]<typename From>() { return launch_cast<From, float>(of, stream); });
}

}  // namespace rollcall::device::kernels

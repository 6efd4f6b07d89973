#include "trainer/data/transforms.h"

#include <algorithm>
#include <cmath>

namespace rollcall::data {
namespace {

/// Python's round(): halves go to the even neighbour (the default rounding mode).
int round_to_int(double value) { return static_cast<int>(std::nearbyint(value)); }

Box central_box(int width, int height, double ratio_min, double ratio_max) {
  Box box{.width = width, .height = height};
  const double ratio = static_cast<double>(width) / height;
  if (ratio < ratio_min) {
    box.height = std::clamp(round_to_int(width / ratio_min), 1, height);
  } else if (ratio > ratio_max) {
    box.width = std::clamp(round_to_int(height * ratio_max), 1, width);
  }
  box.left = (width - box.width) / 2;
  box.top = (height - box.height) / 2;
  return box;
}

int random_offset(int room, Random& random) {
  return static_cast<int>(random.below(static_cast<std::uint32_t>(room) + 1));
}

}  // namespace

ChannelAffine Normalisation::affine() const {
  ChannelAffine result;
  for (std::size_t c = 0; c < 3; ++c) {
    result.scale[c] = static_cast<float>(1 / (255 * deviation[c]));
    result.bias[c] = static_cast<float>(-mean[c] / deviation[c]);
  }
  return result;
}

Box RandomCrop::choose(int width, int height, Random& random) const {
  const double area = static_cast<double>(width) * height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(scale_min, scale_max);
    const double ratio = std::exp(random.uniform(std::log(ratio_min), std::log(ratio_max)));
    const int w = round_to_int(std::sqrt(target * ratio));
    const int h = round_to_int(std::sqrt(target / ratio));
    if (w > 0 && w <= width && h > 0 && h <= height) {
      const int top = random_offset(height - h, random);
      const int left = random_offset(width - w, random);
      return {.left = left, .top = top, .width = w, .height = h};
    }
  }
  return central_box(width, height, ratio_min, ratio_max);
}

Resize TrainTransform::plan(ImageSize size, Random& random) const {
  Resize plan{.source = crop.choose(size.width, size.height, random), .width = image_size, .height = image_size};
  plan.window = {0, 0, image_size, image_size};
  plan.flip = random.uniform() < flip_probability;
  plan.flip_vertically = vertical_flip_probability > 0 && random.uniform() < vertical_flip_probability;
  return plan;
}

void TrainTransform::apply(const PixelView& view, const Resize& plan, Random& /*random*/, const OutputPixels& out,
                           AugmentScratch& /*scratch*/) const {
  resize(view, plan, normalisation.affine(), out);
}

Resize EvalTransform::plan(ImageSize size, Random& /*random*/) const {
  const int shorter = std::min(size.width, size.height);
  const auto resized = [&](int side) {
    return static_cast<int>(static_cast<std::int64_t>(resize_size) * side / shorter);  // torchvision truncates too
  };
  Resize plan{.source = {0, 0, size.width, size.height}, .width = resized(size.width), .height = resized(size.height)};
  plan.window = {round_to_int((plan.width - image_size) / 2.0), round_to_int((plan.height - image_size) / 2.0),
                 image_size, image_size};
  return plan;
}

void EvalTransform::apply(const PixelView& view, const Resize& plan, Random& /*random*/, const OutputPixels& out,
                          AugmentScratch& /*scratch*/) const {
  resize(view, plan, normalisation.affine(), out);
}

}  // namespace rollcall::data

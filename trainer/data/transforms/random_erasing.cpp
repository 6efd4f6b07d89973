#include "trainer/data/transforms/random_erasing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "trainer/data/pixels.h"

namespace rollcall::data {
namespace {

constexpr double kScaleMin = 0.02;
constexpr double kScaleMax = 0.33;
constexpr double kRatioMin = 0.3;
constexpr double kRatioMax = 3.3;

void write_floats(std::byte* to, PixelType type, const std::vector<float>& values) {
  if (type == PixelType::Float32) {
    std::memcpy(to, values.data(), values.size() * sizeof(float));
    return;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = to_bfloat16(values[i]);
    std::memcpy(to + i * sizeof bits, &bits, sizeof bits);
  }
}

}  // namespace

std::optional<Box> RandomErasing::choose(ImageSize size, Random& random) const {
  if (random.uniform() >= probability_) {
    return std::nullopt;
  }
  const double area = static_cast<double>(size.width) * size.height;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double erased = area * random.uniform(kScaleMin, kScaleMax);
    const double ratio = std::exp(random.uniform(std::log(kRatioMin), std::log(kRatioMax)));
    const int height = static_cast<int>(std::nearbyint(std::sqrt(erased * ratio)));
    const int width = static_cast<int>(std::nearbyint(std::sqrt(erased / ratio)));
    if (height < size.height && width < size.width) {
      const auto top = static_cast<int>(random.below(static_cast<std::uint32_t>(size.height - height) + 1));
      const auto left = static_cast<int>(random.below(static_cast<std::uint32_t>(size.width - width) + 1));
      return Box{left, top, width, height};
    }
  }
  return std::nullopt;
}

void RandomErasing::apply(const OutputPixels& out, Random& random, AugmentScratch& scratch) const {
  const std::optional<Box> box = choose({out.width, out.height}, random);
  if (!box) {
    return;
  }
  const std::size_t element = bytes_of(out.type);
  auto* begin = static_cast<std::byte*>(out.data);
  scratch.noise.assign(static_cast<std::size_t>(box->width) * 3, 0.0F);
  for (int y = box->top; y < box->bottom(); ++y) {
    if (value_ == EraseValue::Random) {
      random.fill_normal(scratch.noise);
    }
    const std::ptrdiff_t first = (std::ptrdiff_t{y} * out.width + box->left) * 3;
    write_floats(begin + first * static_cast<std::ptrdiff_t>(element), out.type, scratch.noise);
  }
}

}  // namespace rollcall::data

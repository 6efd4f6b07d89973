#include "trainer/metrics/average_precision.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

namespace rollcall::metrics {

double average_precision(std::vector<Scored> images) {
  for (Scored& image : images) {
    image.score = std::isnan(image.score) ? -std::numeric_limits<double>::infinity() : image.score;
  }
  std::ranges::sort(images, std::greater<>(), &Scored::score);
  double sum = 0;
  double found = 0;
  for (std::size_t begin = 0, end = 0; begin < images.size(); begin = end) {
    double more = 0;
    for (; end < images.size() && images[end].score == images[begin].score; ++end) {
      more += images[end].is_positive ? 1 : 0;
    }
    found += more;
    sum += more * found / static_cast<double>(end);
  }
  return found > 0 ? sum / found : 0;
}

}  // namespace rollcall::metrics

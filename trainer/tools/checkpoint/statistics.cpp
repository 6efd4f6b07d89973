#include "trainer/tools/checkpoint/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "trainer/tools/checkpoint/elements.h"

namespace rollcall::checkpoint_tool {
namespace {

using checkpoint::format::DType;
using checkpoint::format::dtype_size;

template <typename Read>
Statistics gather(std::span<const std::byte> bytes, std::size_t size, Read read) {
  Statistics found{.elements = bytes.size() / size,
                   .minimum = std::numeric_limits<double>::infinity(),
                   .maximum = -std::numeric_limits<double>::infinity()};
  double sum = 0;
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const double number = read(bytes.data() + at);
    found.nan += std::isnan(number);
    found.infinite += std::isinf(number);
    found.zeros += number == 0;
    if (std::isfinite(number)) {
      found.minimum = std::min(found.minimum, number);
      found.maximum = std::max(found.maximum, number);
      sum += number;
    }
  }
  const auto finite = static_cast<double>(found.elements - found.nan - found.infinite);
  if (finite == 0) {
    found.minimum = found.maximum = 0;
    return found;
  }
  found.mean = sum / finite;
  double squares = 0;  // of a second pass: the difference of large sums would be all rounding
  for (std::size_t at = 0; at < bytes.size(); at += size) {
    const double number = read(bytes.data() + at);
    squares += std::isfinite(number) ? (number - found.mean) * (number - found.mean) : 0;
  }
  found.deviation = std::sqrt(squares / finite);
  return found;
}

template <typename Read>
Difference compare(std::span<const std::byte> a, std::span<const std::byte> b, std::size_t size, bool floating,
                   Read read) {
  Difference found{.elements = a.size() / size};
  double sum = 0;
  for (std::size_t at = 0; at < a.size(); at += size) {
    if (std::memcmp(a.data() + at, b.data() + at, size) == 0) {
      continue;
    }
    const double left = read(a.data() + at);
    const double right = read(b.data() + at);
    if (floating && (left == right || (std::isnan(left) && std::isnan(right)))) {
      continue;
    }
    ++found.differing;
    const bool finite = std::isfinite(left) && std::isfinite(right);
    const double absolute = finite ? std::fabs(left - right) : std::numeric_limits<double>::infinity();
    const double larger = std::max(std::fabs(left), std::fabs(right));
    sum += absolute;
    found.max_absolute = std::max(found.max_absolute, absolute);
    found.max_relative = std::max(found.max_relative, finite && larger > 0 ? absolute / larger : absolute);
  }
  found.mean_absolute = found.elements == 0 ? 0 : sum / static_cast<double>(found.elements);
  return found;
}

}  // namespace

Statistics statistics_of(std::span<const std::byte> bytes, DType dtype) {
  return with_element_reader(dtype, [&](auto read) { return gather(bytes, dtype_size(dtype), read); });
}

Difference difference_of(std::span<const std::byte> a, std::span<const std::byte> b, DType dtype) {
  if (std::ranges::equal(a, b)) {
    return {.elements = a.size() / dtype_size(dtype)};
  }
  return with_element_reader(
      dtype, [&](auto read) { return compare(a, b, dtype_size(dtype), is_floating_point(dtype), read); });
}

}  // namespace rollcall::checkpoint_tool

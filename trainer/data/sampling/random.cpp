#include "trainer/data/sampling/random.h"

#include <cmath>
#include <cstddef>
#include <numbers>

namespace rollcall::data {
namespace {

constexpr std::size_t kQuantiles = 4096;

/// Returns the x below which a standard normal draw is with probability p, by Newton's method from a point not above x.
float normal_quantile(double p, double start) {
  double x = start;
  for (int i = 0; i < 8; ++i) {
    const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    x -= (below - p) / density;
  }
  return static_cast<float>(x);
}

std::array<float, kQuantiles> make_quantiles() {
  std::array<float, kQuantiles> table{};
  double x = 0;
  for (std::size_t i = kQuantiles / 2; i < kQuantiles; ++i) {
    x = normal_quantile((static_cast<double>(i) + 0.5) / kQuantiles, x);
    table[i] = static_cast<float>(x);
    table[kQuantiles - 1 - i] = -table[i];
  }
  return table;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

Random::Random(std::uint64_t seed, Purpose purpose, std::uint64_t epoch, std::uint64_t sample)
    : counter_{0, static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32),
               static_cast<std::uint32_t>(epoch)} {
  const std::uint64_t key = splitmix64(splitmix64(seed) + static_cast<std::uint64_t>(purpose));
  key_ = {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)};
}

std::uint32_t Random::bits() {
  if (used_ == block_.size()) {
    block_ = philox4x32(counter_, key_);
    ++counter_[0];
    used_ = 0;
  }
  return block_[used_++];
}

double Random::uniform(double low, double high) {
  const std::uint64_t high_bits = std::uint64_t{bits()} << 21;
  const std::uint64_t fraction = high_bits ^ (bits() >> 11);
  return low + (high - low) * (static_cast<double>(fraction) * 0x1p-53);
}

std::uint32_t Random::below(std::uint32_t count) {
  const std::uint32_t rejected = (0U - count) % count;
  for (;;) {
    const std::uint64_t product = std::uint64_t{bits()} * count;
    if (static_cast<std::uint32_t>(product) >= rejected) {
      return static_cast<std::uint32_t>(product >> 32);
    }
  }
}

void Random::fill_normal(std::span<float> out) {
  static const std::array<float, kQuantiles> quantiles = make_quantiles();
  for (std::size_t i = 0; i < out.size(); i += 2) {
    const std::uint32_t word = bits();
    out[i] = quantiles[word >> 20];
    if (i + 1 < out.size()) {
      out[i + 1] = quantiles[word & (kQuantiles - 1)];
    }
  }
}

}  // namespace rollcall::data

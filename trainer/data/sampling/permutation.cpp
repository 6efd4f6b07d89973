#include "trainer/data/sampling/permutation.h"

#include <cassert>

#include "trainer/data/sampling/mix.h"

namespace rollcall::data {

Permutation::Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch, Purpose purpose) : size_(size) {
  while ((std::uint64_t{1} << (2 * half_bits_)) < static_cast<std::uint64_t>(size)) {
    ++half_bits_;
  }
  Random random(seed, purpose, epoch, 0);
  for (std::uint64_t& key : round_keys_) {
    key = std::uint64_t{random.bits()} << 32;
    key |= random.bits();
  }
}

std::uint64_t Permutation::feistel(std::uint64_t number) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  std::uint64_t left = number >> half_bits_;
  std::uint64_t right = number & mask;
  for (const std::uint64_t key : round_keys_) {
    const std::uint64_t mixed = left ^ (mix(right ^ key) & mask);
    left = right;
    right = mixed;
  }
  return (left << half_bits_) | right;
}

std::int64_t Permutation::operator()(std::int64_t position) const {
  assert(position >= 0 && position < size_);
  // The network permutes a power of four >= size; following it until it re-enters the range keeps it a permutation.
  auto number = static_cast<std::uint64_t>(position);
  do {
    number = feistel(number);
  } while (number >= static_cast<std::uint64_t>(size_));
  return static_cast<std::int64_t>(number);
}

}  // namespace rollcall::data

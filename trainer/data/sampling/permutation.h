#pragma once

#include <array>
#include <cstdint>

#include "trainer/data/sampling/random.h"

namespace rollcall::data {

/// A pseudo-random permutation of 0 ... n-1 as a function of (seed, epoch): any position in O(1), nothing stored, the
/// same on every rank.
///
/// An eight-round balanced Feistel network (Luby, Rackoff, SIAM J. Comput. 1988) on the smallest even number of bits
/// that holds n, with cycle walking (Black, Rogaway, CT-RSA 2002) back into the range: at most 4 passes on average.
/// Thread-safe.
class Permutation {
 public:
  /// size >= 0. The purpose keeps a data set's split apart from the orders of its epochs.
  Permutation(std::int64_t size, std::uint64_t seed, std::uint64_t epoch, Purpose purpose = Purpose::Permutation);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// The element at a position, both in 0 ... size-1.
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  [[nodiscard]] std::uint64_t feistel(std::uint64_t number) const;

  std::int64_t size_;
  unsigned half_bits_ = 1;
  std::array<std::uint64_t, 8> round_keys_{};
};

}  // namespace rollcall::data

#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace rollcall::data {

/// The purpose of random numbers. Each purpose has its own streams, so that equal (seed, epoch, sample) never give two
/// parts of the program the same numbers.
enum class Purpose : std::uint32_t {
  Augmentation = 1,
  Permutation = 2,
  Split = 3,
  FakePixels = 4,
  FakeLabel = 5,
  Window = 6,
  BatchMix = 7,
  Model = 8,
  Drop = 11,
  Balance = 12,
};

/// Random numbers as a function of (seed, purpose, epoch, sample): a sample gets the same ones whichever thread or rank
/// draws them, and in whatever order samples are visited. The state is only the key and a counter.
///
/// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11. Key = mixed seed
/// and purpose; counter = block, sample (64 bits), epoch. One stream holds 2^34 words. Not thread-safe: create one
/// where it is needed.
class Random {
 public:
  Random(std::uint64_t seed, Purpose purpose, std::uint64_t epoch, std::uint64_t sample);

  /// Returns 32 random bits.
  std::uint32_t bits();
  /// Returns a uniform number in [low, high) with 53 bits of resolution.
  double uniform(double low = 0, double high = 1);
  /// Returns a uniform number in {0, ..., count - 1}, without bias (Lemire, TOMACS 2019). count >= 1.
  std::uint32_t below(std::uint32_t count);
  /// Fills `out` with standard normal draws, two from each word: the 4,096 equally likely quantiles, at most 3.67 from
  /// 0.
  void fill_normal(std::span<float> out);

 private:
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 4> block_{};
  unsigned used_ = 4;
};

/// Computes one block of Philox4x32-10; it matches the known answers of the reference implementation.
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key);

/// Computes SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014), a bijection that maps nearby inputs far apart.
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

}  // namespace rollcall::data

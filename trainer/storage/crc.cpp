#include "trainer/storage/crc.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <array>

namespace rollcall::storage {
namespace {

// Polynomials over GF(2) modulo Castagnoli's, reflected: the highest bit is the coefficient of x^0. The method is that
// of crc32_combine() in zlib 1.2.12.
constexpr std::uint32_t kPolynomial = 0x82f63b78;
constexpr std::uint32_t kOne = 0x80000000;
constexpr std::uint32_t kX = 0x40000000;

constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1U) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b & 1U) != 0 ? (b >> 1U) ^ kPolynomial : b >> 1U;
  }
  return product;
}

constexpr std::size_t kPowers = 64 + 3;  // lengths have 64 bits, in bytes of 2^3 bits

/// The powers x^(2^n).
constexpr std::array<std::uint32_t, kPowers> make_powers() {
  std::array<std::uint32_t, kPowers> powers{kX};
  for (std::size_t n = 1; n < kPowers; ++n) {
    powers[n] = multiply(powers[n - 1], powers[n - 1]);
  }
  return powers;
}

constexpr auto kPowersOfX = make_powers();

}  // namespace

std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t previous) {
  constexpr std::size_t kPiece = std::size_t{1} << 30;  // ISA-L's lengths are int
  std::uint32_t state = ~previous;                      // ISA-L uses the raw register, without the inversions
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), kPiece));
    // ISA-L only reads; its prototype lacks the const.
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data()));
    state = crc32_iscsi(data, static_cast<int>(piece.size()), state);
    bytes = bytes.subspan(piece.size());
  }
  return ~state;
}

std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::uint64_t second_bytes) {
  std::uint32_t shift = kOne;
  for (std::size_t n = 3; second_bytes != 0; ++n, second_bytes >>= 1U) {
    shift = (second_bytes & 1U) != 0 ? multiply(kPowersOfX[n], shift) : shift;
  }
  return multiply(shift, first) ^ second;
}

std::uint32_t crc32(std::span<const std::byte> bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

}  // namespace rollcall::storage

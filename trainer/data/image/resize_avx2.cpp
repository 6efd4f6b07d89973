#if defined(__x86_64__)
#include <immintrin.h>
#include <cstring>

#include "trainer/data/image/resize_kernels.h"
#include "trainer/data/unroll.h"

// Only this file's functions are compiled for AVX2: an option for the whole file would also compile the standard
// library's inline functions for it, of which the linker keeps one copy for every CPU.
#define ROLLCALL_AVX2 __attribute__((target("avx2,fma")))
#define ROLLCALL_AVX2_INLINE __attribute__((target("avx2,fma"), always_inline)) inline

namespace rollcall::data {
namespace {

/// Two pixels of one row, in the order of channels, or two rows of one column.
using Floats = __m256;

ROLLCALL_AVX2_INLINE Floats load_levels(const std::uint8_t* from) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
}

/// `kVectors` times two columns of one row of the strip. Many sums at a time hide the latency of the additions.
template <std::size_t kVectors>
ROLLCALL_AVX2_INLINE void vertical_block(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights,
                                         int taps, float* strip) {
  Floats sums[kVectors];
  ROLLCALL_UNROLL
  for (std::size_t i = 0; i < kVectors; ++i) {
    sums[i] = _mm256_setzero_ps();
  }
  for (int k = 0; k < taps; ++k, source += row_bytes) {
    const Floats weight = _mm256_broadcast_ss(weights + k);
    ROLLCALL_UNROLL
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums[i] = _mm256_fmadd_ps(weight, load_levels(source + 8 * i), sums[i]);
    }
  }
  ROLLCALL_UNROLL
  for (std::size_t i = 0; i < kVectors; ++i, strip += std::ptrdiff_t{2} * kStripFloats) {
    _mm_storeu_ps(strip, _mm256_castps256_ps128(sums[i]));
    _mm_storeu_ps(strip + kStripFloats, _mm256_extractf128_ps(sums[i], 1));
  }
}

ROLLCALL_AVX2 void vertical(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights, int taps,
                            int columns, float* strip) {
  int column = 0;
  for (; column + 16 <= columns; column += 16) {
    vertical_block<8>(source + std::ptrdiff_t{column} * 4, row_bytes, weights, taps,
                      strip + std::ptrdiff_t{column} * kStripFloats);
  }
  for (; column < columns; column += 4) {
    vertical_block<2>(source + std::ptrdiff_t{column} * 4, row_bytes, weights, taps,
                      strip + std::ptrdiff_t{column} * kStripFloats);
  }
}

// How an output pixel of four rows is stored: rows 0 and 1 in `low`, 2 and 3 in `high`. A pixel's fourth element is
// written to the next pixel, which is overwritten afterwards; the last pixel of a row must not have one.

struct StoreFloat {
  static ROLLCALL_AVX2_INLINE void put(float* to, __m128 pixel, bool last) {
    if (!last) {
      _mm_storeu_ps(to, pixel);
      return;
    }
    alignas(16) float elements[4];
    _mm_store_ps(elements, pixel);
    std::memcpy(to, elements, 3 * sizeof(float));
  }

  static ROLLCALL_AVX2_INLINE void store(const HorizontalPass& pass, int x, Floats low, Floats high, bool last) {
    const std::ptrdiff_t at = std::ptrdiff_t{x} * 3;
    put(static_cast<float*>(pass.rows[0]) + at, _mm256_castps256_ps128(low), last);
    put(static_cast<float*>(pass.rows[1]) + at, _mm256_extractf128_ps(low, 1), last);
    put(static_cast<float*>(pass.rows[2]) + at, _mm256_castps256_ps128(high), last);
    put(static_cast<float*>(pass.rows[3]) + at, _mm256_extractf128_ps(high, 1), last);
  }
};

struct StoreBFloat16 {
  /// Returns the nearest bfloat16, ties to even, in the low half of each lane.
  static ROLLCALL_AVX2_INLINE __m256i rounded(Floats values) {
    const __m256i bits = _mm256_castps_si256(values);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
    return _mm256_srli_epi32(sum, 16);
  }

  static ROLLCALL_AVX2_INLINE void put(void* row, int x, long long pixel, bool last) {
    std::memcpy(static_cast<std::uint16_t*>(row) + std::ptrdiff_t{x} * 3, &pixel, last ? 6 : 8);
  }

  static ROLLCALL_AVX2_INLINE void store(const HorizontalPass& pass, int x, Floats low, Floats high, bool last) {
    const __m256i packed = _mm256_packus_epi32(rounded(low), rounded(high));  // rows 0, 2 | 1, 3
    const __m128i even = _mm256_castsi256_si128(packed);
    const __m128i odd = _mm256_extracti128_si256(packed, 1);
    put(pass.rows[0], x, _mm_cvtsi128_si64(even), last);
    put(pass.rows[1], x, _mm_cvtsi128_si64(odd), last);
    put(pass.rows[2], x, _mm_extract_epi64(even, 1), last);
    put(pass.rows[3], x, _mm_extract_epi64(odd, 1), last);
  }
};

struct StoreLevels {
  static ROLLCALL_AVX2_INLINE void put(void* row, int x, int pixel) {
    std::memcpy(static_cast<std::uint8_t*>(row) + std::ptrdiff_t{x} * 4, &pixel, 4);
  }

  static ROLLCALL_AVX2_INLINE void store(const HorizontalPass& pass, int x, Floats low, Floats high, bool /*last*/) {
    const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    const __m256i bytes = _mm256_packus_epi16(words, words);  // rows 0, 2, 0, 2 | 1, 3, 1, 3
    const __m128i even = _mm256_castsi256_si128(bytes);
    const __m128i odd = _mm256_extracti128_si256(bytes, 1);
    put(pass.rows[0], x, _mm_cvtsi128_si32(even));
    put(pass.rows[1], x, _mm_cvtsi128_si32(odd));
    put(pass.rows[2], x, _mm_extract_epi32(even, 1));
    put(pass.rows[3], x, _mm_extract_epi32(odd, 1));
  }
};

/// One output pixel of four rows.
struct Sums {
  Floats low;
  Floats high;
};

ROLLCALL_AVX2_INLINE void add_tap(Sums& sums, const float* column, const float* weight) {
  const Floats factor = _mm256_broadcast_ss(weight);
  sums.low = _mm256_fmadd_ps(factor, _mm256_load_ps(column), sums.low);
  sums.high = _mm256_fmadd_ps(factor, _mm256_load_ps(column + 8), sums.high);
}

/// `kTaps`: a compile-time number of taps, so that the loop is unrolled; 0: pass.taps.
template <typename Store, int kTaps>
ROLLCALL_AVX2_INLINE void horizontal_pixel(const HorizontalPass& pass, int x, Floats scale, Floats bias, bool last) {
  const int position = pass.flip ? pass.width - 1 - x : x;
  const float* column = pass.strip + std::ptrdiff_t{pass.first[position]} * kStripFloats;
  const float* weights = pass.weights + std::ptrdiff_t{position} * (kTaps > 0 ? kTaps : pass.taps);
  Sums sums{_mm256_setzero_ps(), _mm256_setzero_ps()};
  if constexpr (kTaps > 0) {
    ROLLCALL_UNROLL
    for (int k = 0; k < kTaps; ++k) {
      add_tap(sums, column + std::ptrdiff_t{k} * kStripFloats, weights + k);
    }
  } else {
    for (int k = 0; k < pass.taps; ++k) {
      add_tap(sums, column + std::ptrdiff_t{k} * kStripFloats, weights + k);
    }
  }
  Store::store(pass, x, _mm256_fmadd_ps(sums.low, scale, bias), _mm256_fmadd_ps(sums.high, scale, bias), last);
}

template <typename Store, int kTaps>
ROLLCALL_AVX2 void horizontal_row(const HorizontalPass& shared) {
  const HorizontalPass pass = shared;  // a copy: stores cannot change its members, so they stay in registers
  const Floats scale = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(shared.scale.data()));
  const Floats bias = _mm256_broadcast_ps(reinterpret_cast<const __m128*>(shared.bias.data()));
  for (int x = 0; x + 1 < pass.width; ++x) {
    horizontal_pixel<Store, kTaps>(pass, x, scale, bias, false);
  }
  horizontal_pixel<Store, kTaps>(pass, pass.width - 1, scale, bias, true);
}

template <typename Store>
void horizontal(const HorizontalPass& pass) {
  switch (pass.taps) {
    case 1:
      return horizontal_row<Store, 1>(pass);
    case 2:
      return horizontal_row<Store, 2>(pass);
    case 3:
      return horizontal_row<Store, 3>(pass);
    case 4:
      return horizontal_row<Store, 4>(pass);
    case 5:
      return horizontal_row<Store, 5>(pass);
    case 6:
      return horizontal_row<Store, 6>(pass);
    default:
      return horizontal_row<Store, 0>(pass);
  }
}

}  // namespace

const ResizeKernels kAvx2Resize{.name = "avx2",
                                .vertical = vertical,
                                .to_float = horizontal<StoreFloat>,
                                .to_bfloat16 = horizontal<StoreBFloat16>,
                                .to_uint8 = horizontal<StoreLevels>};

}  // namespace rollcall::data
#endif

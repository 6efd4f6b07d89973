#if defined(__x86_64__)
#if !defined(__clang__)
// GCC 12 warns of undefined registers in its own intrinsics (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#include <cstring>

#include "trainer/data/image/resize_kernels.h"
#include "trainer/data/unroll.h"

// Only this file's functions are compiled for AVX-512; resize_avx2.cpp does the same for AVX2.
#define ROLLCALL_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma")))
#define ROLLCALL_AVX512_INLINE __attribute__((target("avx512f,avx512bw,avx512vl,avx2,fma"), always_inline)) inline

namespace rollcall::data {
namespace {

/// Four pixels of one row, in the order of channels, or one column, which is four rows.
using Floats = __m512;

ROLLCALL_AVX512_INLINE Floats load_levels(const std::uint8_t* from) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
}

/// `kVectors` times four columns of one row of the strip. Many sums at a time hide the latency of the additions.
template <std::size_t kVectors>
ROLLCALL_AVX512_INLINE void vertical_block(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights,
                                           int taps, float* strip) {
  Floats sums[kVectors];
  ROLLCALL_UNROLL
  for (std::size_t i = 0; i < kVectors; ++i) {
    sums[i] = _mm512_setzero_ps();
  }
  for (int k = 0; k < taps; ++k, source += row_bytes) {
    const Floats weight = _mm512_set1_ps(weights[k]);
    ROLLCALL_UNROLL
    for (std::size_t i = 0; i < kVectors; ++i) {
      sums[i] = _mm512_fmadd_ps(weight, load_levels(source + 16 * i), sums[i]);
    }
  }
  ROLLCALL_UNROLL
  for (std::size_t i = 0; i < kVectors; ++i, strip += std::ptrdiff_t{4} * kStripFloats) {
    _mm_storeu_ps(strip, _mm512_castps512_ps128(sums[i]));
    _mm_storeu_ps(strip + kStripFloats, _mm512_extractf32x4_ps(sums[i], 1));
    _mm_storeu_ps(strip + std::ptrdiff_t{2} * kStripFloats, _mm512_extractf32x4_ps(sums[i], 2));
    _mm_storeu_ps(strip + std::ptrdiff_t{3} * kStripFloats, _mm512_extractf32x4_ps(sums[i], 3));
  }
}

ROLLCALL_AVX512 void vertical(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights, int taps,
                              int columns, float* strip) {
  int column = 0;
  for (; column + 32 <= columns; column += 32) {
    vertical_block<8>(source + std::ptrdiff_t{column} * 4, row_bytes, weights, taps,
                      strip + std::ptrdiff_t{column} * kStripFloats);
  }
  for (; column < columns; column += 4) {
    vertical_block<1>(source + std::ptrdiff_t{column} * 4, row_bytes, weights, taps,
                      strip + std::ptrdiff_t{column} * kStripFloats);
  }
}

// How an output pixel of four rows is stored, one row in each quarter. A pixel's fourth element is written to the next
// pixel, which is overwritten afterwards; the last pixel of a row must not have one.

struct StoreFloat {
  static ROLLCALL_AVX512_INLINE void put(void* row, int x, __m128 pixel, bool last) {
    float* to = static_cast<float*>(row) + std::ptrdiff_t{x} * 3;
    if (last) {
      _mm_mask_storeu_ps(to, 0x7, pixel);
    } else {
      _mm_storeu_ps(to, pixel);
    }
  }

  static ROLLCALL_AVX512_INLINE void store(const HorizontalPass& pass, int x, Floats values, bool last) {
    put(pass.rows[0], x, _mm512_castps512_ps128(values), last);
    put(pass.rows[1], x, _mm512_extractf32x4_ps(values, 1), last);
    put(pass.rows[2], x, _mm512_extractf32x4_ps(values, 2), last);
    put(pass.rows[3], x, _mm512_extractf32x4_ps(values, 3), last);
  }
};

struct StoreBFloat16 {
  /// Returns the nearest bfloat16, ties to even.
  static ROLLCALL_AVX512_INLINE __m256i rounded(Floats values) {
    const __m512i bits = _mm512_castps_si512(values);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(sum, 16));
  }

  static ROLLCALL_AVX512_INLINE void put(void* row, int x, long long pixel, bool last) {
    std::memcpy(static_cast<std::uint16_t*>(row) + std::ptrdiff_t{x} * 3, &pixel, last ? 6 : 8);
  }

  static ROLLCALL_AVX512_INLINE void store(const HorizontalPass& pass, int x, Floats values, bool last) {
    const __m256i packed = rounded(values);
    const __m128i upper = _mm256_castsi256_si128(packed);
    const __m128i lower = _mm256_extracti128_si256(packed, 1);
    put(pass.rows[0], x, _mm_cvtsi128_si64(upper), last);
    put(pass.rows[1], x, _mm_extract_epi64(upper, 1), last);
    put(pass.rows[2], x, _mm_cvtsi128_si64(lower), last);
    put(pass.rows[3], x, _mm_extract_epi64(lower, 1), last);
  }
};

struct StoreLevels {
  static ROLLCALL_AVX512_INLINE void put(void* row, int x, int pixel) {
    std::memcpy(static_cast<std::uint8_t*>(row) + std::ptrdiff_t{x} * 4, &pixel, 4);
  }

  static ROLLCALL_AVX512_INLINE void store(const HorizontalPass& pass, int x, Floats values, bool /*last*/) {
    const __m512i whole = _mm512_max_epi32(_mm512_cvtps_epi32(values), _mm512_setzero_si512());
    const __m128i bytes = _mm512_cvtusepi32_epi8(whole);
    put(pass.rows[0], x, _mm_cvtsi128_si32(bytes));
    put(pass.rows[1], x, _mm_extract_epi32(bytes, 1));
    put(pass.rows[2], x, _mm_extract_epi32(bytes, 2));
    put(pass.rows[3], x, _mm_extract_epi32(bytes, 3));
  }
};

/// `kTaps`: a compile-time number of taps, so that the loop is unrolled; 0: pass.taps.
template <typename Store, int kTaps>
ROLLCALL_AVX512_INLINE void horizontal_pixel(const HorizontalPass& pass, int x, Floats scale, Floats bias, bool last) {
  const int position = pass.flip ? pass.width - 1 - x : x;
  const float* column = pass.strip + std::ptrdiff_t{pass.first[position]} * kStripFloats;
  const float* weights = pass.weights + std::ptrdiff_t{position} * (kTaps > 0 ? kTaps : pass.taps);
  Floats sum = _mm512_setzero_ps();
  if constexpr (kTaps > 0) {
    ROLLCALL_UNROLL
    for (int k = 0; k < kTaps; ++k) {
      sum = _mm512_fmadd_ps(_mm512_set1_ps(weights[k]), _mm512_load_ps(column + std::ptrdiff_t{k} * kStripFloats), sum);
    }
  } else {
    for (int k = 0; k < pass.taps; ++k, column += kStripFloats) {
      sum = _mm512_fmadd_ps(_mm512_set1_ps(weights[k]), _mm512_load_ps(column), sum);
    }
  }
  Store::store(pass, x, _mm512_fmadd_ps(sum, scale, bias), last);
}

template <typename Store, int kTaps>
ROLLCALL_AVX512 void horizontal_row(const HorizontalPass& shared) {
  const HorizontalPass pass = shared;  // a copy: stores cannot change its members, so they stay in registers
  const Floats scale = _mm512_broadcast_f32x4(_mm_loadu_ps(shared.scale.data()));
  const Floats bias = _mm512_broadcast_f32x4(_mm_loadu_ps(shared.bias.data()));
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

const ResizeKernels kAvx512Resize{.name = "avx512",
                                  .vertical = vertical,
                                  .to_float = horizontal<StoreFloat>,
                                  .to_bfloat16 = horizontal<StoreBFloat16>,
                                  .to_uint8 = horizontal<StoreLevels>};

}  // namespace rollcall::data
#endif

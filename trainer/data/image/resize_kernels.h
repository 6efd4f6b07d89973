#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rollcall::data {

// The inner loops of resize(), one version per instruction set. A strip is four vertically resampled rows side by side,
// [column][4 rows][red, green, blue, unused] floats: one column is one 64-byte vector, and a tap of the horizontal pass
// multiplies it by one weight.
//
// Every version gives the same bits: each output value is the same chain of fused multiply-adds in the same order.

inline constexpr int kStripRows = 4;
inline constexpr int kStripFloats = kStripRows * 4;  ///< floats of one column
/// Columns after the last one of a strip that a kernel may write or read, besides the taps.
inline constexpr int kStripSlack = 16;

/// The arguments of the horizontal pass, which turns one strip into four output rows.
struct HorizontalPass {
  const float* strip = nullptr;         ///< aligned to 64 bytes
  const std::int32_t* first = nullptr;  ///< [width] column of the first tap
  const float* weights = nullptr;       ///< [width][taps]
  int taps = 0;
  int width = 0;      ///< output pixels of a row
  bool flip = false;  ///< output pixel x is made with the taps of width - 1 - x
  std::array<float, 4> scale{};
  std::array<float, 4> bias{};
  std::array<void*, kStripRows> rows{};  ///< the output rows; nothing is written after their last element
};

struct ResizeKernels {
  const char* name = "";

  /// Computes one row of a strip: strip[column * kStripFloats + channel] = the sum over k of weights[k] * source[k *
  /// row_bytes + column * 4 + channel]. Reads at most 12 bytes after the last column.
  void (*vertical)(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights, int taps, int columns,
                   float* strip) = nullptr;

  // Weights the strip's columns first[x] ... first[x] + taps - 1, scales and shifts the sum.
  void (*to_float)(const HorizontalPass& pass) = nullptr;  ///< writes three float32 per pixel
  void (*to_bfloat16)(const HorizontalPass& pass) =
      nullptr;  ///< writes three bfloat16 per pixel, rounded to nearest even
  void (*to_uint8)(const HorizontalPass& pass) =
      nullptr;  ///< writes four bytes per pixel, rounded to nearest even and clamped
};

extern const ResizeKernels kPortableResize;
#if defined(__x86_64__)
extern const ResizeKernels kAvx2Resize;    ///< needs AVX2 and FMA
extern const ResizeKernels kAvx512Resize;  ///< needs AVX-512 F, BW and VL
#endif

/// Returns the kernels that this CPU can run, the fastest one last.
[[nodiscard]] std::span<const ResizeKernels* const> usable_resize_kernels();

}  // namespace rollcall::data

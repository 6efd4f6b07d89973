#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rollcall::data {

// The inner loops of resize(), once for each instruction set. A strip is four vertically resampled rows side by side,
// [column][4 rows][red, green, blue, unused] floats: one column is one 64-byte vector, and a tap of the horizontal pass
// is one multiplication of it by one weight.
//
// Every version gives the same bits: each output value is the same chain of fused multiply-adds in the same order.

inline constexpr int kStripRows = 4;
inline constexpr int kStripFloats = kStripRows * 4;  ///< of one column
/// Columns that a kernel may write or read behind the last one of a strip, besides the taps.
inline constexpr int kStripSlack = 16;

/// One strip's way to four output rows.
struct HorizontalPass {
  const float* strip = nullptr;         ///< aligned to 64 bytes
  const std::int32_t* first = nullptr;  ///< [width] column of the first tap
  const float* weights = nullptr;       ///< [width][taps]
  int taps = 0;
  int width = 0;      ///< output pixels of a row
  bool flip = false;  ///< output pixel x is made with the taps of width - 1 - x
  std::array<float, 4> scale{};
  std::array<float, 4> bias{};
  std::array<void*, kStripRows> rows{};  ///< where the output rows go; never beyond their last element
};

struct ResizeKernels {
  const char* name = "";

  /// One row of a strip: strip[column * kStripFloats + channel] = the sum over k of
  /// weights[k] * source[k * row_bytes + column * 4 + channel]. Reads at most 12 bytes behind the last column.
  void (*vertical)(const std::uint8_t* source, std::ptrdiff_t row_bytes, const float* weights, int taps, int columns,
                   float* strip) = nullptr;

  // The strip's columns first[x] ... first[x] + taps - 1, weighted, scaled and shifted.
  void (*to_float)(const HorizontalPass& pass) = nullptr;     ///< three float32 a pixel
  void (*to_bfloat16)(const HorizontalPass& pass) = nullptr;  ///< three bfloat16 a pixel, to nearest even
  void (*to_levels)(const HorizontalPass& pass) = nullptr;    ///< four bytes, to nearest even, clamped
};

extern const ResizeKernels kPortableResize;
#if defined(__x86_64__)
extern const ResizeKernels kAvx2Resize;    ///< needs AVX2 and FMA
extern const ResizeKernels kAvx512Resize;  ///< needs AVX-512 F, BW and VL
#endif

/// Those that this CPU can run, the fastest one last.
[[nodiscard]] std::span<const ResizeKernels* const> usable_resize_kernels();

}  // namespace rollcall::data

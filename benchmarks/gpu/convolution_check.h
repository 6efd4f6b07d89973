#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "benchmarks/gpu/convolution_graph.h"

/// Numbers that cudnn_graph computes with, and what it expects of them. Pure; all in NHWC.
namespace rollcall::cudnn {

/// Elements repeat after so many, a prime, so that no two channels or pixels have the same ones.
inline constexpr std::int64_t kPeriod = 1'000'003;
/// By how much an output near 1 may differ: bfloat16 has 8 bits, and what is wrong differs by tenths.
inline constexpr double kTolerance = 0.02;

enum class Operand { X, Weights, Scale, Bias };

[[nodiscard]] std::uint16_t encoded(float value, cudnnDataType_t type);
[[nodiscard]] float decoded(std::uint16_t bits, cudnnDataType_t type);

/// Element `index` of an operand, which float16 and bfloat16 represent: x from -0.5 to 1.5, weights from -1 to 1 by
/// about the root of how many are added up, scale from 0.5 to 1.5, bias from -0.5 to 0.5.
[[nodiscard]] float element(Operand operand, std::int64_t index, const Shape& shape);

/// The first kPeriod elements, or `count` where that is less.
[[nodiscard]] std::vector<std::uint16_t> elements(Operand operand, std::int64_t count, const Shape& shape,
                                                  cudnnDataType_t type);

/// Returns what is wrong with `y`, or nothing: some pixels, corners among them, beside sums in double on the CPU; and
/// the sums of the first and last channel (empty without statistics) beside those of `y` itself.
[[nodiscard]] std::string what_is_wrong(const Shape& shape, bool prologue, cudnnDataType_t type,
                                        std::span<const std::uint16_t> y, std::span<const float> sum,
                                        std::span<const float> squares);

}  // namespace rollcall::cudnn

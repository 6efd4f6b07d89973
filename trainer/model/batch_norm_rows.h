#pragma once

#include "trainer/model/batch_norm_passes.h"

/// The passes of batch_norm_passes.h for CPU tensors in channels-last memory, float32 or bfloat16, by the kernels of
/// batch_norm_kernels.h: every pass reads its inputs once, and the epilogue costs no pass of its own. Sums are taken in
/// float32 over some thousand values, then in float64; their order depends on the number of threads, as LibTorch's
/// does.
namespace rollcall::model::rows {

/// Whether x can be computed with here.
[[nodiscard]] bool fit(const at::Tensor& x);

// As the functions of the same names, for x that fits. Other tensors are brought into x's type and layout first.
[[nodiscard]] at::Tensor input_sums(const at::Tensor& x);
[[nodiscard]] at::Tensor normalise(const at::Tensor& x, const Affine& affine, Epilogue epilogue,
                                   const at::Tensor& shortcut);
[[nodiscard]] OutputGradient below_epilogue(at::Tensor gradient, const at::Tensor& y, const at::Tensor& x,
                                            const Affine& affine, Epilogue epilogue);
[[nodiscard]] at::Tensor input_gradient(OutputGradient gradient, const at::Tensor& x, const Affine& affine);

}  // namespace rollcall::model::rows

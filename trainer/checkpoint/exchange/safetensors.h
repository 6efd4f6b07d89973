#pragma once

#include <span>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/input_file.h"
#include "trainer/checkpoint/exchange/output_file.h"
#include "trainer/checkpoint/exchange/state_dict.h"

namespace rollcall::checkpoint::exchange {

/// Reads a safetensors file (github.com/huggingface/safetensors, "Format"): eight bytes N, N bytes of JSON, the
/// tensors' bytes without gaps. Tensors come in the order of their bytes.
///
/// Errors: BadData: damaged, or elements of a type that checkpoints do not have; InputOutput.
[[nodiscard]] Result<StateDict> read_safetensors(const InputFile& file);

/// Writes a safetensors file that says `"format": "pt"`. Larger elements come first, so that all are aligned; tensors
/// of one size keep their order. Errors (InputOutput): those of OutputFile.
[[nodiscard]] Result<void> write_safetensors(OutputFile& out, std::span<const StateTensor> tensors);

}  // namespace rollcall::checkpoint::exchange

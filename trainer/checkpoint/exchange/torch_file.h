#pragma once

#include <span>
#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/input_file.h"
#include "trainer/checkpoint/exchange/output_file.h"
#include "trainer/checkpoint/exchange/state_dict.h"

namespace rollcall::checkpoint::exchange {

/// Reads a state dict from a zip file that torch.save wrote (PyTorch 1.6 or newer), without executing its pickle: see
/// pickle_tree.h. `key` names the item of the file's dict that is the state dict; empty: the dict itself, or what it
/// holds under "state_dict", "model_state_dict" or "model". Tensors that share elements are given one after the other;
/// those that are no plain row-major block are copied into one.
///
/// Errors: BadData: no such file, damaged, elements of a type that checkpoints do not have, a pickle that is more than
/// data; InputOutput.
[[nodiscard]] Result<StateDict> read_torch_file(InputFile file, const std::string& key = "");

/// Writes what torch.save(state_dict, path) writes: torch.load(path, weights_only=True, mmap=True or not) gives an
/// OrderedDict of the tensors in this order. Errors (InputOutput): those of OutputFile.
[[nodiscard]] Result<void> write_torch_file(OutputFile& out, std::span<const StateTensor> tensors);

}  // namespace rollcall::checkpoint::exchange

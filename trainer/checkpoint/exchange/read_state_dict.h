#pragma once

#include <string>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/state_dict.h"

namespace rollcall::checkpoint::exchange {

/// Reads a state dict from a file of another program's, told by its first bytes: a zip file of torch.save or a
/// safetensors file. Nothing in it is executed. `key`: see read_torch_file(). Prefixes that wrappers put before all
/// names are taken off (remove_wrapper_prefixes()).
///
/// Errors: NoInput, BadData (the message says what to do in Python), InputOutput.
[[nodiscard]] Result<StateDict> read_state_dict(const std::string& path, const std::string& key = "");

}  // namespace rollcall::checkpoint::exchange

#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/exchange/files.h"
#include "trainer/checkpoint/exchange/pickle.h"

namespace rollcall::checkpoint::exchange {

struct FoundDict {
  const PickleDict* dict = nullptr;
  std::string key{};                  ///< "model"; empty: the whole
  std::vector<std::string> others{};  ///< "model_ema": with half as many tensors at least, where nobody chose
};

/// The dict of tensors in what a training saved: the one that `key` names ("model_ema", "state.model"), or the whole,
/// or the item that is usually called so, or the only one there is. Where `key` names none, it is what is before names
/// in the dict that is taken without it. Errors (BadData) name what is there instead.
[[nodiscard]] Result<FoundDict> find_state_dict(const PickleTree& tree, const std::string& key, const InputFile& file);

/// What a value that is no tensor is, for an error: "no tensor", or whose class it is of; and what to do about it.
[[nodiscard]] std::string describe(const PickleTree& tree, PickleIndex value);
[[nodiscard]] std::string advice_for(const PickleTree& tree, PickleIndex value);

}  // namespace rollcall::checkpoint::exchange

#pragma once

#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/checkpoint/interop/files.h"
#include "trainer/checkpoint/interop/pickle.h"

namespace rollcall::checkpoint::interop {

struct FoundDict {
  const PickleDict* dict = nullptr;
  std::string key{};  ///< "model"; empty: the whole file
  /// "model_ema": other dicts with at least half as many tensors, if no key was given.
  std::vector<std::string> others{};
};

/// Finds the dict of tensors in the file of a training: the dict that `key` names ("model_ema", "state.model"), or else
/// the whole, or the item that usually has this name, or the only one. If `key` names no dict, it is a prefix of names
/// in the dict that is chosen without it. Errors (BadData) name what the file holds instead.
[[nodiscard]] Result<FoundDict> find_state_dict(const PickleTree& tree, const std::string& key, const InputFile& file);

/// Describes a value that is not a tensor for an error: "not a tensor", or the class of the object. advice_for()
/// returns what to do about it.
[[nodiscard]] std::string describe(const PickleTree& tree, PickleIndex value);
[[nodiscard]] std::string advice_for(const PickleTree& tree, PickleIndex value);

}  // namespace rollcall::checkpoint::interop

#include "trainer/checkpoint/exchange/state_dict.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace rollcall::checkpoint::exchange {
namespace {

bool remove_prefix(StateDict& state, std::string_view prefix) {
  const auto has_it = [&](const StateTensor& tensor) { return tensor.key.starts_with(prefix); };
  if (state.tensors.empty() || !std::ranges::all_of(state.tensors, has_it)) {
    return false;
  }
  for (StateTensor& tensor : state.tensors) {
    tensor.key.erase(0, prefix.size());
  }
  return true;
}

}  // namespace

std::optional<std::uint64_t> byte_count(format::DType dtype, std::span<const std::int64_t> shape) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t bytes = format::dtype_size(dtype);
  for (const std::int64_t dimension : shape) {
    const auto size = static_cast<std::uint64_t>(dimension);
    if (dimension < 0 || (size != 0 && bytes > kMost / size)) {
      return std::nullopt;
    }
    bytes *= size;
  }
  return bytes;
}

void remove_wrapper_prefixes(StateDict& state) {
  while (remove_prefix(state, "module.") || remove_prefix(state, "_orig_mod.")) {
  }
}

}  // namespace rollcall::checkpoint::exchange

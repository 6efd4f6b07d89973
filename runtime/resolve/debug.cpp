#include <array>
#include <string>
#include <utility>

#include "runtime/resolve/groups.h"

namespace rollcall::resolve {

Result<void> add_debug(const Inputs& inputs, PatchBuilder& patch) {
  using Pair = std::pair<std::string_view, std::string_view>;
  constexpr std::array kVariables{Pair{"TORCH_DISTRIBUTED_DEBUG", "DETAIL"}, Pair{"TORCH_CPP_LOG_LEVEL", "INFO"},
                                  Pair{"TORCH_SHOW_CPP_STACKTRACES", "1"}, Pair{"TORCH_LOGS", "+distributed"},
                                  Pair{"NCCL_DEBUG", "INFO"}};
  if (!inputs.settings.on("debug")) {
    return {};
  }
  for (const auto& [name, value] : kVariables) {
    patch.propose({name, std::string(value), "setting debug", "diagnostics are on", "debug"});
  }
  return {};
}

}  // namespace rollcall::resolve

#pragma once

#include <functional>
#include <iosfwd>
#include <string_view>

#include "runtime/base/result.h"

namespace rollcall::command_line {

/// What is around every tool: the exit code of `work`, which prints to `out`. An Error of it, output that could not be
/// written, too little memory and whatever is thrown are one line on `err`, with their exit code. `program`: its name;
/// `for_less_memory`: what to try where there is not enough, "--num-workers=1".
[[nodiscard]] int tool_main(std::string_view program, std::string_view for_less_memory, std::ostream& out,
                            std::ostream& err, const std::function<Result<int>()>& work) noexcept;

}  // namespace rollcall::command_line

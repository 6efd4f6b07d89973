#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rollcall::job {

/// Returns the argument of the last `option` ("--ddp") among srun's options in `arguments`, whose first element is
/// srun's name. "" where it has no argument; nothing where it is not given. For callers before srun has parsed its
/// options. Options after the program's name belong to the program. The components of a het step (`srun A : B`) count
/// as one.
///
/// The search ends at an unknown long option, because the word after it may be its argument or the program. Abbreviated
/// names ("--dd") are not found. Pure.
[[nodiscard]] std::optional<std::string> srun_option(std::span<const std::string> arguments, std::string_view option);

}  // namespace rollcall::job

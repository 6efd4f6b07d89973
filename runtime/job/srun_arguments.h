#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace rollcall::job {

/// The argument of the last `option` ("--ddp") among srun's own options on its command line, name first; "" where it
/// has none, nothing where it is not there. For those who must know before srun has parsed them: an option behind the
/// name of the program is the program's. The components of a het step (`srun A : B`) count as one.
///
/// A word behind a long option that this does not know may be its argument or the program: from there on nothing is
/// found, since what would be might be the program's. Abbreviated names ("--dd") are not found. Pure.
[[nodiscard]] std::optional<std::string> srun_option(std::span<const std::string> arguments, std::string_view option);

}  // namespace rollcall::job

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rollcall::job {

/// The lines of slurm.conf as Slurm's own reader has them (src/common/parse_config.c): what follows a `#` is left out,
/// a line that ends with `\` goes on in the next one, and `\` before any other character stands for that character.
[[nodiscard]] std::vector<std::string> slurm_conf_lines(const std::string& text);

/// The `key=value` pairs of such a line, in order, up to what is none. Spaces may stand around the `=` and a value may
/// be "in quotes", which are left out.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> slurm_conf_pairs(std::string_view line);

}  // namespace rollcall::job

#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace rollcall::command_line {

/// Returns what `--version --json` says of every program: program, version, commit (or released, the date of the
/// release, if the sources were not in git when CMake ran), compiler, build_type and architecture. The same sources
/// and compiler give the same.
[[nodiscard]] nlohmann::ordered_json build_facts(std::string_view program);

}  // namespace rollcall::command_line

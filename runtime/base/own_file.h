#pragma once

#include <filesystem>
#include <optional>

namespace rollcall {

/// `path` below one of the folders above the program or plugin that this code was linked into, the nearest that has it:
/// where `cmake --install` puts what belongs to it; the build folder has the same layout. Nothing where there is none.
/// Not influenced by the environment.
[[nodiscard]] std::optional<std::filesystem::path> find_above_own_file(const std::filesystem::path& path);

}  // namespace rollcall

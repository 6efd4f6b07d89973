#pragma once

#include <optional>
#include <string_view>

namespace rollcall {

/// What stands at the dynamic symbol `name` of a shared object with content `file`, to the end of its section. Nothing
/// where the file is no 64-bit ELF file, or has no such symbol with bytes in it. Believes nothing that the file says of
/// itself. Pure.
[[nodiscard]] std::optional<std::string_view> elf_symbol(std::string_view file, std::string_view name);

}  // namespace rollcall

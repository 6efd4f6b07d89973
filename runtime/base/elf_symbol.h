#pragma once

#include <optional>
#include <string_view>

namespace rollcall {

/// Returns the bytes from the dynamic symbol `name` to the end of its section; `file` is the content of a shared
/// object. Nothing where it is not a 64-bit ELF file or has no bytes for such a symbol. All offsets in the file are
/// checked. Pure.
[[nodiscard]] std::optional<std::string_view> elf_symbol(std::string_view file, std::string_view name);

}  // namespace rollcall

#include "runtime/base/elf_symbol.h"

#include <elf.h>

#include <cstdint>
#include <cstring>

namespace rollcall {
namespace {

/// Returns the structure at `offset`, or nothing where the file is too short.
template <typename T>
std::optional<T> at(std::string_view bytes, std::uint64_t offset) {
  T value;
  if (offset > bytes.size() || bytes.size() - offset < sizeof value) {
    return std::nullopt;
  }
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::optional<Elf64_Shdr> section(std::string_view bytes, const Elf64_Ehdr& header, std::uint32_t index) {
  return at<Elf64_Shdr>(bytes, header.e_shoff + std::uint64_t{index} * sizeof(Elf64_Shdr));
}

bool has_name(std::string_view bytes, const Elf64_Shdr& names, std::uint32_t offset, std::string_view name) {
  const std::uint64_t begin = names.sh_offset + offset;
  return begin < bytes.size() && bytes.substr(begin).starts_with(name) && begin + name.size() < bytes.size() &&
         bytes[begin + name.size()] == '\0';
}

std::optional<Elf64_Sym> find_symbol(std::string_view bytes, const Elf64_Ehdr& header, std::string_view name) {
  for (std::uint32_t index = 0; index < header.e_shnum; ++index) {
    const auto table = section(bytes, header, index);
    if (!table || table->sh_type != SHT_DYNSYM) {
      continue;
    }
    const auto names = section(bytes, header, table->sh_link);
    for (std::uint64_t i = 0; names && i < table->sh_size / sizeof(Elf64_Sym); ++i) {
      const auto symbol = at<Elf64_Sym>(bytes, table->sh_offset + i * sizeof(Elf64_Sym));
      if (!symbol) {
        break;
      }
      if (has_name(bytes, *names, symbol->st_name, name)) {
        return symbol;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> elf_symbol(std::string_view file, std::string_view name) {
  const auto header = at<Elf64_Ehdr>(file, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
    return std::nullopt;
  }
  const auto symbol = find_symbol(file, *header, name);
  const auto home = symbol ? section(file, *header, symbol->st_shndx) : std::nullopt;
  if (!home || symbol->st_value < home->sh_addr || symbol->st_value - home->sh_addr >= home->sh_size) {
    return std::nullopt;
  }
  const std::uint64_t begin = home->sh_offset + (symbol->st_value - home->sh_addr);
  return begin < file.size() ? std::optional(file.substr(begin, home->sh_size - (symbol->st_value - home->sh_addr)))
                             : std::nullopt;
}

}  // namespace rollcall

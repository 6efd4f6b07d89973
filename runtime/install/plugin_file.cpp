#include "runtime/install/plugin_file.h"

#include <elf.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "runtime/base/child_process.h"
#include "runtime/base/text.h"
#include "runtime/job/marker.h"

namespace rollcall::install {
namespace {

constexpr std::string_view kSymbol = "plugin_version";

/// A structure at `offset`; nothing where the file ends before.
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

bool has_name(std::string_view bytes, const Elf64_Shdr& names, std::uint32_t offset) {
  const std::uint64_t begin = names.sh_offset + offset;
  return begin < bytes.size() && bytes.substr(begin).starts_with(kSymbol) && begin + kSymbol.size() < bytes.size() &&
         bytes[begin + kSymbol.size()] == '\0';
}

std::optional<Elf64_Sym> find_symbol(std::string_view bytes, const Elf64_Ehdr& header) {
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
      if (has_name(bytes, *names, symbol->st_name)) {
        return symbol;
      }
    }
  }
  return std::nullopt;
}

SlurmVersion from_number(std::uint32_t number) {
  return {static_cast<int>(number >> 16 & 0xff), static_cast<int>(number >> 8 & 0xff), static_cast<int>(number & 0xff)};
}

}  // namespace

std::string SlurmVersion::text() const { return fmt::format("{}.{:02}.{}", major, minor, micro); }

std::optional<SlurmVersion> plugin_version(std::string_view bytes) {
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 || header->e_ident[EI_CLASS] != ELFCLASS64) {
    return std::nullopt;
  }
  const auto symbol = find_symbol(bytes, *header);
  const auto home = symbol ? section(bytes, *header, symbol->st_shndx) : std::nullopt;
  if (!home || symbol->st_value < home->sh_addr) {
    return std::nullopt;
  }
  const auto number = at<std::uint32_t>(bytes, home->sh_offset + (symbol->st_value - home->sh_addr));
  return number ? std::optional(from_number(*number)) : std::nullopt;
}

std::optional<SlurmVersion> parse_slurm_version(std::string_view text) {
  const std::size_t digits = text.find_first_of("0123456789");
  if (digits == std::string_view::npos) {
    return std::nullopt;
  }
  const std::vector<std::string> parts = split(text.substr(digits), '.');
  if (parts.size() < 3) {
    return std::nullopt;
  }
  const auto major = parse_integer<int>(parts[0]);
  const auto minor = parse_integer<int>(parts[1]);
  const auto micro = parse_integer<int>(parts[2].substr(0, parts[2].find_first_not_of("0123456789")));
  return major && minor ? std::optional(SlurmVersion{*major, *minor, micro.value_or(0)}) : std::nullopt;
}

std::optional<SlurmVersion> slurm_version(const Environment& environment, const std::string& slurm_conf) {
  Environment with_conf = environment;
  with_conf.set("SLURM_CONF", slurm_conf);
  const Result<ChildOutput> output = run_and_capture({"srun", "--version"}, with_conf);
  return output && output->exit_code == 0 ? parse_slurm_version(output->text) : std::nullopt;
}

std::string placed_plugin(const std::string& path, const SlurmVersion& built_for, std::string_view bytes) {
  const std::string folder = fmt::format("/{}.{:02}-{:08x}", built_for.major, built_for.minor, job::fnv1a(bytes));
  const std::string above = path.substr(0, path.rfind('/'));
  return above.ends_with(folder) ? path : above + folder + "/spank_rollcall.so";
}

std::optional<std::string> plugin_beside(const std::string& program) {
  const std::string folder = program.substr(0, program.rfind('/'));
  const std::string prefix = folder.substr(0, folder.rfind('/'));
  for (const char* const place : {ROLLCALL_LIBDIR "/rollcall", "lib64/rollcall", "lib/rollcall", "spank_plugin"}) {
    if (std::string path = fmt::format("{}/{}/spank_rollcall.so", prefix, place); ::access(path.c_str(), R_OK) == 0) {
      return path;
    }
  }
  return std::nullopt;
}

}  // namespace rollcall::install

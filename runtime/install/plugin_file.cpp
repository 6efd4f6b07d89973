#include "runtime/install/plugin_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "runtime/base/child_process.h"
#include "runtime/base/elf_symbol.h"
#include "runtime/base/text.h"
#include "runtime/job/marker.h"

namespace rollcall::install {
namespace {

SlurmVersion from_number(std::uint32_t number) {
  return {static_cast<int>(number >> 16 & 0xff), static_cast<int>(number >> 8 & 0xff), static_cast<int>(number & 0xff)};
}

}  // namespace

std::string SlurmVersion::text() const { return fmt::format("{}.{:02}.{}", major, minor, micro); }

std::optional<SlurmVersion> plugin_version(std::string_view bytes) {
  const std::optional<std::string_view> symbol = elf_symbol(bytes, "plugin_version");
  std::uint32_t number = 0;
  if (!symbol || symbol->size() < sizeof number) {
    return std::nullopt;
  }
  std::memcpy(&number, symbol->data(), sizeof number);
  return from_number(number);
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

#include "runtime/install/plugin_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <map>
#include <string>

#include "runtime/base/child_process.h"
#include "runtime/base/elf_symbol.h"
#include "runtime/base/text.h"
#include "runtime/job/marker.h"

namespace rollcall::install {
namespace {

constexpr const char* kFile = "spank_rollcall.so";

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

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
  // A compute node may have slurmd alone, and sudo may leave out the folder of srun.
  for (const std::vector<std::string>& command : {std::vector<std::string>{"srun", "--version"}, {"slurmd", "-V"}}) {
    const Result<ChildOutput> output = run_and_capture(command, with_conf);
    if (output && output->exit_code == 0) {
      return parse_slurm_version(output->text);
    }
  }
  return std::nullopt;
}

std::string placed_plugin(const std::string& path, const SlurmVersion& built_for, std::string_view bytes) {
  const std::string version = fmt::format("{}.{:02}", built_for.major, built_for.minor);
  const std::string folder = fmt::format("/{}-{:08x}", version, job::fnv1a(bytes));
  std::string above = folder_of(path);
  if (above.ends_with(folder)) {
    return path;
  }
  if (above.ends_with("/slurm-" + version)) {
    above = folder_of(above);
  }
  return above + folder + "/" + kFile;
}

std::vector<std::string> plugins_beside(const std::string& program, const job::ListNames& names) {
  const std::string prefix = folder_of(folder_of(program));
  std::map<std::string, std::string> found;  // by version: the folder of this build's libraries goes before others
  const auto look_in = [&](const std::string& version, const std::string& folder) {
    if (std::ranges::count(names(folder), kFile) > 0) {
      found.emplace(version, folder + "/" + kFile);
    }
  };
  for (const char* const libraries : {ROLLCALL_LIBDIR, "lib64", "lib"}) {
    const std::string folder = fmt::format("{}/{}/rollcall/", prefix, libraries);
    for (const std::string& name : names(folder)) {
      if (name.starts_with("slurm-")) {
        look_in(name, folder + name);
      }
    }
  }
  look_in("", prefix + "/spank_plugin");
  std::vector<std::string> paths;
  std::ranges::transform(found, std::back_inserter(paths), &std::pair<const std::string, std::string>::second);
  return paths;
}

Result<PluginFile> fitting_plugin(const std::vector<PluginFile>& plugins, const std::optional<SlurmVersion>& slurm) {
  std::vector<std::string> versions;
  for (const PluginFile& plugin : plugins) {
    if (slurm ? slurm->fits(plugin.built_for) : plugins.size() == 1) {
      return plugin;
    }
    versions.push_back(plugin.built_for.text());
  }
  const bool is_one = versions.size() == 1;
  const std::string& first = plugins.front().path;
  return fail("--plugin", is_one ? first : folder_of(folder_of(first)),
              fmt::format("{} Slurm {}, {}", is_one ? "was built for" : "has plugins for", fmt::join(versions, ", "),
                          slurm ? "but this is Slurm " + slurm->text() : "and the version of this Slurm is unknown"),
              slurm ? "--plugin=FILE, a spank_rollcall.so built against this Slurm's headers"
                    : "--plugin=FILE, the one for this Slurm",
              ErrorKind::NoInput);
}

}  // namespace rollcall::install

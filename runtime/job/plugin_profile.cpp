#include "runtime/job/plugin_profile.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstddef>

#include "runtime/base/small_file.h"
#include "runtime/contract/env_vars.h"
#include "runtime/job/slurm_files.h"

namespace rollcall::job {
namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20;

/// Reads Slurm's files, and notes the first that may not count.
class SlurmReader {
 public:
  explicit SlurmReader(const std::string& slurm_conf) {
    struct stat status {};
    owner_ = ::stat(slurm_conf.c_str(), &status) == 0 ? status.st_uid : 0;
  }

  std::optional<std::string> read(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0 && status.st_uid != 0 && status.st_uid != owner_) {
      note(path, "belongs neither to root nor to the owner of slurm.conf");
      return std::nullopt;
    }
    std::string text;
    if (const FileReading reading = read_small_file(path, kLongest, text); !reading.reason.empty()) {
      if (reading.error_number != ENOENT) {
        note(path, reading.reason);
      }
      return std::nullopt;
    }
    return text;
  }

  void note(const std::string& path, const std::string& reason) {
    doubt_ = doubt_.empty() ? fmt::format("{}: {}", path, reason) : doubt_;
  }

  [[nodiscard]] const std::string& doubt() const { return doubt_; }

 private:
  uid_t owner_ = 0;
  std::string doubt_;
};

}  // namespace

PluginProfile profile_of_plugin(const Environment& environment) {
  const std::string slurm_conf = slurm_conf_in_force(environment);
  if (environment.get_non_empty(env::kSiteConfig) || slurm_conf.empty()) {
    return {};
  }
  SlurmReader reader(slurm_conf);
  const ReadFile read = [&reader](const std::string& path) { return reader.read(path); };
  PluginProfile profile;
  for (const PluginLine& line : plugin_lines(plugstack_of(slurm_conf, read), read, names_in)) {
    if (line.config.empty() || profile.file) {
      continue;
    }
    if (may_exist(line.config)) {
      profile.file = line.config;
    } else {
      reader.note(line.config, fmt::format("is not on this host, and {} names it", line.file));
    }
  }
  profile.doubt = profile.file ? "" : reader.doubt();
  return profile;
}

}  // namespace rollcall::job

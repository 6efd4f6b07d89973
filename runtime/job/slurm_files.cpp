#include "runtime/job/slurm_files.h"

#include <fmt/format.h>
#include <fnmatch.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <sstream>
#include <utility>

#include "runtime/base/elf_symbol.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/trusted_file.h"
#include "runtime/contract/env_vars.h"

namespace rollcall::job {
namespace {

constexpr int kDeepest = 8;  // files may include each other

std::string beside(const std::string& file, const std::string& name) {
  return name.starts_with('/') ? name : file.substr(0, file.rfind('/') + 1) + name;
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::strncasecmp(a.data(), b.data(), a.size()) == 0;
}

/// Splits each line into words, without comments.
std::vector<std::vector<std::string>> words_of_lines(const std::string& text) {
  std::vector<std::vector<std::string>> lines;
  for (const std::string& line : split(text, '\n')) {
    std::istringstream stream(line.substr(0, line.find('#')));
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
      words.push_back(word);
    }
    if (!words.empty()) {
      lines.push_back(std::move(words));
    }
  }
  return lines;
}

/// Returns the file that a line of slurm.conf includes, or an empty text.
std::string included_by(const std::string& path, const std::string& line) {
  const std::vector<std::vector<std::string>> words = words_of_lines(line);
  const bool includes = words.size() == 1 && words[0].size() > 1 && equal_but_for_case(words[0][0], "include");
  return includes ? beside(path, words[0][1]) : "";
}

void find_value(const std::string& path, std::string_view key, const ReadFile& read, int depth,
                std::optional<std::string>& found) {
  const std::optional<std::string> text = depth < kDeepest ? read(path) : std::nullopt;
  for (const std::string& line : slurm_conf_lines(text.value_or(""))) {
    if (const std::string file = included_by(path, line); !file.empty()) {
      find_value(file, key, read, depth + 1, found);
      continue;
    }
    for (const auto& [name, value] : slurm_conf_pairs(line)) {
      if (equal_but_for_case(name, key)) {
        found = value;
      }
    }
  }
}

/// Expands wildcards like glob(3), which would read this machine's folders instead of an image's. Names without
/// wildcards are returned even if they do not exist.
std::vector<std::string> matching_files(const std::string& pattern, const ListNames& names) {
  std::vector<std::string> paths{""};
  for (const std::string& part : split(pattern, '/')) {
    if (part.empty()) {
      continue;
    }
    std::vector<std::string> longer;
    for (const std::string& folder : paths) {
      const bool wild = part.find_first_of("*?[\\") != std::string::npos;
      for (const std::string& name : wild ? names(folder + "/") : std::vector{part}) {
        if (!wild || ::fnmatch(part.c_str(), name.c_str(), FNM_PERIOD) == 0) {
          longer.emplace_back(folder).append("/").append(name);
        }
      }
    }
    paths = std::move(longer);
  }
  return paths;
}

PluginLine plugin_line(const std::string& file, const std::vector<std::string>& words) {
  PluginLine line{file, words[1], words[0] == "required", "", "", "", ""};
  for (const std::string& word : words) {
    for (const auto& [key, value] : {std::pair{"config=", &line.config},
                                     {"config_owner=", &line.config_owner},
                                     {"task_prolog=", &line.task_prolog},
                                     {"rollcall=", &line.program}}) {
      if (word.starts_with(key)) {
        *value = word.substr(std::string_view(key).size());
      }
    }
  }
  return line;
}

/// Returns whether a plugin is rollcall's, by its SPANK name whatever its file is called. A plugin without a path,
/// which is in slurm.conf's PluginDir, is recognized by its file name.
bool is_rollcall(const std::string& plugin, const ReadFile& read) {
  if (plugin.ends_with("spank_rollcall.so") || !plugin.starts_with('/')) {
    return plugin.find("rollcall") != std::string::npos;
  }
  using namespace std::string_view_literals;
  const std::optional<std::string> file = read(plugin);
  const std::optional<std::string_view> name = elf_symbol(file ? *file : "", "plugin_name");
  return name && name->starts_with("rollcall\0"sv);
}

void find_plugin_lines(const std::string& path, const ReadFile& read, const ListNames& names, int depth,
                       std::vector<PluginLine>& found) {
  const std::optional<std::string> text = depth < kDeepest ? read(path) : std::nullopt;
  for (const auto& words : words_of_lines(text.value_or(""))) {
    if (words.size() < 2) {
      continue;
    }
    if (words[0] == "include") {
      for (const std::string& file : matching_files(beside(path, words[1]), names)) {
        find_plugin_lines(file, read, names, depth + 1, found);
      }
    } else if (is_rollcall(words[1], read)) {
      found.push_back(plugin_line(path, words));
    }
  }
}

}  // namespace

std::string find_slurm_conf(const Environment& environment) {
  if (const auto named = environment.get_non_empty("SLURM_CONF")) {
    return *named;
  }
  for (const char* const path : kSlurmConfPaths) {
    if (::access(path, R_OK) == 0) {
      return path;
    }
  }
  return "";
}

std::optional<std::string> slurm_conf_value(const std::string& path, std::string_view key, const ReadFile& read) {
  std::optional<std::string> found;
  find_value(path, key, read, 0, found);
  return found;
}

std::optional<std::string> first_include(const std::string& path, const ReadFile& read) {
  for (const std::string& line : slurm_conf_lines(read(path).value_or(""))) {
    if (std::string file = included_by(path, line); !file.empty()) {
      return file;
    }
  }
  return std::nullopt;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const std::filesystem::path& path : entries_of(folder)) {
    names.push_back(path.filename().string());
  }
  return names;
}

std::vector<PluginLine> plugin_lines(const std::string& path, const ReadFile& read, const ListNames& names) {
  std::vector<PluginLine> found;
  find_plugin_lines(path, read, names, 0, found);
  return found;
}

std::string plugstack_of(const std::string& slurm_conf, const ReadFile& read) {
  return slurm_conf_value(slurm_conf, "PlugStackConfig", read).value_or(beside(slurm_conf, "plugstack.conf"));
}

namespace {

constexpr std::size_t kLongest = std::size_t{1} << 20;

/// Reads Slurm's files, and keeps the first error about a file that is not trusted.
class SlurmReader {
 public:
  std::optional<std::string> read(const std::string& path) {
    std::string text;
    if (path.ends_with(".so")) {  // only its name is read; check_plugin() checks rollcall's, others may be larger
      return read_small_file(path, kLongest, text).reason.empty() ? std::optional(std::move(text)) : std::nullopt;
    }
    std::optional<TrustProblem> trust_problem;
    const FileReading reading = read_trusted_file(path, trusted_, kLongest, text, trust_problem);
    if (trust_problem && !refusal_) {
      refusal_ = settings::refuse_untrusted(path, *trust_problem);
    }
    if (!reading.reason.empty() && reading.error_number != ENOENT) {
      note(path, reading.reason);
    }
    return trust_problem || !reading.reason.empty() ? std::nullopt : std::optional(std::move(text));
  }

  /// From now on, reads only files that nobody but `trusted` can have changed.
  void trust(TrustedOwners trusted) { trusted_ = std::move(trusted); }

  void note(const std::string& path, const std::string& reason) {
    doubt_ = doubt_.empty() ? fmt::format("{}: {}", path, reason) : doubt_;
  }

  [[nodiscard]] const std::string& doubt() const { return doubt_; }
  [[nodiscard]] const std::optional<Error>& refusal() const { return refusal_; }

 private:
  TrustedOwners trusted_{.anybody = true};
  std::string doubt_{};
  std::optional<Error> refusal_{};
};

/// Returns the site's line of plugstack.conf, the one with a profile where there are two. Lines of users' installations
/// are skipped.
std::optional<PluginLine> sites_line(const std::string& plugstack, const ReadFile& read) {
  std::optional<PluginLine> found;
  for (PluginLine& line : plugin_lines(plugstack, read, names_in)) {
    const bool is_sites = line.task_prolog.empty() || !line.config.empty();
    if (is_sites && (!found || (found->config.empty() && !line.config.empty()))) {
      found = std::move(line);
    }
  }
  return found;
}

/// Reads the profile of the site's line. The line is read twice: first to learn which owners are trusted, and then only
/// from their files.
settings::PluginProfile profile_of_line(const std::string& plugstack, const std::string& slurm_conf,
                                        SlurmReader& reader) {
  const ReadFile read = [&reader](const std::string& path) { return reader.read(path); };
  const std::optional<PluginLine> named = sites_line(plugstack, read);
  if (!named) {
    return {};
  }
  settings::PluginProfile profile = settings::plugin_profile(named->config, named->config_owner);
  profile.owners = with_owner_of(named->plugin, profile.owners);
  const TrustedOwners of_slurm = with_owner_of(slurm_conf, profile.owners);
  reader.trust(of_slurm);
  const std::optional<PluginLine> line = sites_line(plugstack, read);
  const Result<void> checked = settings::check_plugin(named->plugin, of_slurm);
  if (!profile.refusal) {
    profile.refusal = reader.refusal() || checked ? reader.refusal() : checked.error();
  }
  profile.file = line && !line->config.empty() ? std::optional(line->config) : std::nullopt;
  return profile;
}

}  // namespace

settings::PluginProfile profile_of_plugin(const Environment& environment) {
  const std::string slurm_conf = find_slurm_conf(environment);
  if (environment.get_non_empty(env::kSiteConfig) || slurm_conf.empty()) {
    return {};
  }
  SlurmReader reader;
  const std::string plugstack =
      plugstack_of(slurm_conf, [&reader](const std::string& path) { return reader.read(path); });
  if (!plugstack.starts_with('/')) {
    return {.doubt = fmt::format("{}: PlugStackConfig={} is not an absolute path", slurm_conf, plugstack)};
  }
  settings::PluginProfile profile = profile_of_line(plugstack, slurm_conf, reader);
  if (profile.file && !may_exist(*profile.file)) {
    reader.note(*profile.file, fmt::format("does not exist on this host, but {} names it", plugstack));
    profile.file.reset();
  }
  profile.doubt = profile.file ? "" : reader.doubt();
  return profile;
}

}  // namespace rollcall::job

#include "runtime/settings/site_profile.h"

#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/toml_file.h"

namespace rollcall::settings {
namespace {

/// The section [site] of a profile.
struct SiteSection {
  std::string name;
  std::vector<std::string> systemname;  ///< values of $SYSTEMNAME and /etc/FZJ/systemname
  std::vector<std::string> cluster;     ///< Slurm's ClusterName
  std::vector<std::string> hosts;       ///< patterns of host names as in fnmatch(3): "jwb*.juwels"
  std::vector<std::string> locked;      ///< settings that only the profile may set
};

using Member = std::vector<std::string> SiteSection::*;
struct Key {
  std::string_view name;
  Member member;
};
constexpr std::array kLists{Key{"systemname", &SiteSection::systemname}, Key{"cluster", &SiteSection::cluster},
                            Key{"hosts", &SiteSection::hosts}, Key{"locked", &SiteSection::locked}};

Error wrong(const std::string& path, const toml::node& node, std::string_view key, std::string reason,
            std::string action) {
  return fail(place(path, node, fmt::format("{}.{}", kSiteSection, key)), "", std::move(reason), std::move(action),
              ErrorKind::Configuration);
}

/// Reads a text or an array of texts.
std::optional<std::vector<std::string>> texts(const toml::node& node) {
  if (const auto* one = node.as_string()) {
    return std::vector{one->get()};
  }
  std::vector<std::string> all;
  for (const toml::node& item : node.is_array() ? *node.as_array() : toml::array{}) {
    if (!item.is_string()) {
      return std::nullopt;
    }
    all.push_back(item.as_string()->get());
  }
  return node.is_array() ? std::optional(std::move(all)) : std::nullopt;
}

Error unknown_key(const std::string& path, const toml::node& node, const std::string& key) {
  std::vector<std::string> known{"name"};
  for (const Key& list : kLists) {
    known.emplace_back(list.name);
  }
  return wrong(path, node, key, "unknown key",
               nearest(key, known).value_or("name, systemname, cluster, hosts or locked"));
}

Result<SiteSection> read_section(const toml::table& root, const std::string& path) {
  SiteSection section;
  section.name = std::filesystem::path(path).stem();
  const toml::table* const table = root[kSiteSection].as_table();
  if (table == nullptr) {
    return section;
  }
  for (const auto& [key, node] : *table) {
    const std::string name(key.str());
    const auto list = std::ranges::find(kLists, std::string_view(name), &Key::name);
    if (name != "name" && list == kLists.end()) {
      return unknown_key(path, node, name);
    }
    std::optional<std::vector<std::string>> values = texts(node);
    if (!values || (name == "name" && values->size() != 1)) {
      return wrong(path, node, name, "has a value of the wrong type",
                   name == "name" ? "giving a text" : "giving texts in [...]");
    }
    if (name == "name") {
      section.name = values->front();
    } else {
      section.*(list->member) = std::move(*values);
    }
  }
  return section;
}

/// Returns the text up to the first table that is not [site], so that recognising a site does not parse all profiles.
std::string head_of(const std::string& content) {
  for (std::size_t at = content.find("\n["); at != std::string::npos; at = content.find("\n[", at + 1)) {
    if (!std::string_view(content).substr(at + 2).starts_with(kSiteSection)) {
      return content.substr(0, at + 1);
    }
  }
  return content;
}

Result<SiteSection> read_head(const std::string& path) {
  std::string content;
  if (const FileReading read = read_small_file(path, kLongestFile, content); !read.reason.empty()) {
    return fail(path, "", read.reason, "making the installed profiles readable", ErrorKind::Configuration);
  }
  const Result<toml::table> root = parse_toml(head_of(content), path);
  return root ? read_section(*root, path) : root.error();
}

bool same_letters(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::ranges::equal(a, b, {}, lower, lower);
}

bool contains(const std::vector<std::string>& names, const std::string& clue) {
  return !clue.empty() && std::ranges::any_of(names, [&](const std::string& name) { return same_letters(name, clue); });
}

/// Returns how `section` fits the clue of number `strength`, in the order of SiteClues from the strongest, 0, to 3:
/// "SYSTEMNAME=jedi". Returns nothing if it does not fit. Case is ignored.
std::optional<std::string> fits(const SiteSection& section, const SiteClues& clues, int strength) {
  const auto host_fits = [&](const std::string& pattern) {
    return !clues.host.empty() && ::fnmatch(pattern.c_str(), clues.host.c_str(), FNM_CASEFOLD) == 0;
  };
  switch (strength) {
    case 0:
      return contains(section.systemname, clues.variable) ? std::optional("SYSTEMNAME=" + clues.variable)
                                                          : std::nullopt;
    case 1:
      return contains(section.systemname, clues.file) ? std::optional("/etc/FZJ/systemname: " + clues.file)
                                                      : std::nullopt;
    case 2:
      return contains(section.cluster, clues.cluster) ? std::optional("Slurm's cluster name " + clues.cluster)
                                                      : std::nullopt;
    default:
      return std::ranges::any_of(section.hosts, host_fits) ? std::optional("host name " + clues.host) : std::nullopt;
  }
}

Result<void> apply_locks(Settings& settings, const SiteSection& section) {
  for (const std::string& name : section.locked) {
    const Setting* const setting = find_setting(settings.table(), name);
    if (setting == nullptr) {
      std::vector<std::string> known;
      for (const Setting& row : settings.table()) {
        known.emplace_back(row.name);
      }
      return fail(fmt::format("{}: {}.locked", settings.site()->file, kSiteSection), name, "unknown setting",
                  nearest(name, known).value_or("rollcall help settings, which lists all"), ErrorKind::Configuration);
    }
    settings.lock(setting->name);
  }
  return {};
}

constexpr const char* kSystemNameFile = "/etc/FZJ/systemname";  // all systems of the Jülich Supercomputing Centre

}  // namespace

Result<std::optional<SiteProfile>> recognise_site(const std::optional<std::filesystem::path>& folder,
                                                  const SiteClues& clues) {
  std::vector<std::filesystem::path> files = entries_of(folder.value_or(std::filesystem::path()));
  std::erase_if(files, [](const std::filesystem::path& file) { return file.extension() != ".toml"; });
  std::vector<SiteSection> sections;
  for (const std::filesystem::path& file : files) {
    ASSIGN_OR_RETURN(SiteSection section, read_head(file));
    sections.push_back(std::move(section));
  }
  for (int strength = 0; strength <= 3; ++strength) {
    for (std::size_t i = 0; i < files.size(); ++i) {
      if (std::optional<std::string> how = fits(sections[i], clues, strength)) {
        return std::optional(SiteProfile{sections[i].name, files[i], *std::move(how)});
      }
    }
  }
  return std::optional<SiteProfile>();
}

Result<void> apply_site_profile(Settings& settings, SiteProfile site, std::string_view section,
                                const TrustedOwners& owners) {
  ASSIGN_OR_RETURN(const std::optional<toml::table> root, read_toml(site.file, true, owners));
  ASSIGN_OR_RETURN(const SiteSection own, read_section(*root, site.file));
  const std::string file = site.file;
  site.name = own.name;
  settings.set_site(std::move(site));
  RETURN_IF_ERROR(apply_toml(settings, *root, file, section));
  return section.empty() ? apply_locks(settings, own) : Result<void>();
}

SiteClues clues_of_this_machine(const Environment& environment) {
  SiteClues clues;
  clues.variable = environment.get(env::kSystemName).value_or("");
  clues.cluster = environment.get(env::kSlurmClusterName).value_or("");
  clues.file = first_line_of(kSystemNameFile);
  clues.host = this_host_name();
  return clues;
}

FoundInstalled installed_site_folder() {
  return find_in_installation(std::filesystem::path("share") / "rollcall" / "site_config");
}

}  // namespace rollcall::settings

#include <unistd.h>

#include <array>
#include <climits>
#include <filesystem>

#include "runtime/base/own_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/site_profile.h"
#include "runtime/settings/toml_source.h"

namespace rollcall::settings {
namespace {

constexpr const char* kSystemNameFile = "/etc/FZJ/systemname";  // all systems of the Jülich Supercomputing Centre

}  // namespace

SiteClues clues_of_this_machine(const Environment& environment) {
  SiteClues clues;
  clues.variable = environment.get(env::kSystemName).value_or("");
  clues.cluster = environment.get(env::kSlurmClusterName).value_or("");
  std::string content;
  if (read_file(kSystemNameFile, content) == 0) {
    clues.file = trim(content.substr(0, content.find('\n')));
  }
  std::array<char, HOST_NAME_MAX + 1> name{};
  clues.host = ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
  return clues;
}

std::optional<std::string> installed_site_folder() {
  const auto folder = find_above_own_file(std::filesystem::path("share") / "rollcall" / "site_config");
  return folder ? std::optional(folder->string()) : std::nullopt;
}

}  // namespace rollcall::settings

#include "trainer/config/sweep.h"

#include <fmt/format.h>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/settings/values.h"

namespace rollcall::config {
namespace {

/// Returns the lines that count.
Result<std::vector<std::string>> lines_of(const std::string& path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) {
    return fail("--sweep", path, "is not a regular file", "naming a file that every node can read", ErrorKind::NoInput);
  }
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const std::string_view text = trim(line);
    if (!text.empty() && !text.starts_with('#')) {
      lines.emplace_back(text);
    }
  }
  if (!file.is_open() || file.bad()) {
    return fail("--sweep", path, errno_text(errno), "naming a file that every node can read", ErrorKind::NoInput);
  }
  return lines;
}

}  // namespace

Result<void> apply_sweep(settings::Settings& settings, const Environment& environment) {
  const std::string& given = settings.text("sweep");
  if (given == "none") {
    return {};
  }
  ASSIGN_OR_RETURN(const std::string path, settings::expand_path(given, environment, "--sweep"));
  ASSIGN_OR_RETURN(const std::vector<std::string> lines, lines_of(path));
  const std::string text = environment.get(env::kSlurmArrayTaskId).value_or("");
  const auto element = parse_integer<std::size_t>(text);
  if (!element || *element < 1 || *element > lines.size()) {
    return fail("--sweep", given,
                element ? fmt::format("has {}, but this is element {} of a job array",
                                      counted(lines.size(), "line of options", "lines of options"), *element)
                        : "is for the elements of a job array, and this is none",
                lines.empty() ? "writing a line of options for each element"
                              : fmt::format("sbatch --array=1-{}", lines.size()));
  }
  std::istringstream words(lines[*element - 1]);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (!word.starts_with("--") || equals == std::string::npos ||
        settings::find_setting(settings.table(), word.substr(2, equals - 2)) == nullptr) {
      return fail("--sweep", word, fmt::format("in line {} of {} is not an option with a value", *element, path),
                  "writing --lr=0.1 --seed=2, without blanks in values; rollcall-train --help=all shows all options");
    }
    RETURN_IF_ERROR(settings.set(word.substr(2, equals - 2), word.substr(equals + 1),
                                 fmt::format("--sweep={}:{}", given, *element)));
  }
  return {};
}

}  // namespace rollcall::config

#include "runtime/settings/path_expansion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <vector>

#include "runtime/base/text.h"

namespace rollcall::settings {
namespace {

constexpr std::array<std::string_view, 6> kVariables{"SCRATCH", "HOME",         "USER",
                                                     "TMPDIR",  "SLURM_JOB_ID", "XDG_RUNTIME_DIR"};

std::string all_variables() { return fmt::format("${{{}}}", fmt::join(kVariables, "}, ${")); }

std::string advice(std::string_view wrong_name) {
  const std::vector<std::string> names(kVariables.begin(), kVariables.end());
  const auto meant = nearest(wrong_name, names);
  return meant ? fmt::format("${{{}}}", *meant) : "one of " + all_variables() + ", or writing the folder out";
}

/// Copies `path`, handing each variable's name to `value_of`, which gives its replacement.
Result<std::string> replace_variables(std::string_view path, const std::string& setting,
                                      const std::function<Result<std::string>(std::string_view)>& value_of) {
  std::string expanded;
  for (std::size_t dollar = path.find('$'); dollar != std::string_view::npos; dollar = path.find('$')) {
    expanded += path.substr(0, dollar);
    const std::string_view rest = path.substr(dollar + 1);
    const std::size_t close = rest.find('}');
    if (!rest.starts_with('{') || close == std::string_view::npos) {
      const std::size_t end = std::min(rest.find('/'), rest.size());
      return fail(setting, std::string(path), "has a '$' that is no ${NAME}", advice(rest.substr(0, end)));
    }
    const std::string_view name = rest.substr(1, close - 1);
    if (std::ranges::find(kVariables, name) == kVariables.end()) {
      return fail(setting, std::string(path), fmt::format("${{{}}} is not expanded here", name), advice(name));
    }
    Result<std::string> value = value_of(name);
    if (!value) {
      return value;
    }
    expanded += *value;
    path = rest.substr(close + 1);
  }
  return expanded.append(path);
}

}  // namespace

Result<std::string> expand_path(std::string_view path, const Environment& environment, const std::string& setting) {
  return replace_variables(path, setting, [&](std::string_view name) -> Result<std::string> {
    const std::optional<std::string> value = environment.get_non_empty(name);
    if (!value) {
      return fail(setting, std::string(path), fmt::format("{} is not set", name),
                  fmt::format("setting {} or writing the folder out", name));
    }
    return *value;
  });
}

Result<void> check_path_variables(std::string_view path, const std::string& setting) {
  if (path.starts_with('~')) {
    return fail(setting, std::string(path), "'~' is not expanded here", "${HOME}" + std::string(path.substr(1)));
  }
  const Result<std::string> walked =
      replace_variables(path, setting, [](std::string_view) -> Result<std::string> { return std::string(); });
  return walked ? Result<void>() : walked.error();
}

}  // namespace rollcall::settings

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "runtime/base/small_file.h"
#include "runtime/base/this_process.h"
#include "runtime/cli/command.h"

namespace rollcall::cli {
namespace {

struct Script {
  std::string_view shell;
  std::string_view path;  ///< where packages of the shell look below /usr
};
constexpr std::array kScripts{Script{"bash", "share/bash-completion/completions/rollcall"},
                              Script{"zsh", "share/zsh/site-functions/_rollcall"},
                              Script{"fish", "share/fish/vendor_completions.d/rollcall.fish"}};

}  // namespace

Result<std::string> completion_script(const std::string& option, const std::string& shell, const std::string& advice) {
  const auto known = std::ranges::find(kScripts, shell, &Script::shell);
  if (known == kScripts.end()) {
    return fail(option, shell, "is for bash, zsh and fish only", advice);
  }
  const FoundInstalled found = find_in_installation(known->path);
  std::string script = found.file ? content_of(*found.file, std::size_t{1} << 20) : "";
  if (script.empty()) {
    return fail(option, shell,
                fmt::format("there is no {}{}", known->path,
                            found.passed_over.empty() ? "" : fmt::format(" ({})", found.passed_over)),
                "installing the component launch", ErrorKind::NoInput);
  }
  return script;
}

Result<void> run_completion(CommandContext& context) {
  const std::string shells = fmt::format("{}", fmt::join(context.line.positional, " "));
  ASSIGN_OR_RETURN(const std::string script, completion_script("completion", shells, "rollcall completion bash"));
  context.out << script;
  return {};
}

}  // namespace rollcall::cli

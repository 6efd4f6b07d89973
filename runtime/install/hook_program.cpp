#include "runtime/install/hook_program.h"

#include <filesystem>

#include "runtime/install/plan.h"
#include "runtime/install/status.h"

namespace rollcall::install {
namespace {

constexpr int kLevels = 4;  // as many as the plugin searches

bool is_file(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error);
}

std::string or_another(const std::string& protocol) { return protocol.empty() ? "another version" : protocol; }

}  // namespace

std::optional<std::string> program_above(const std::string& plugin, const ImageRoot& root) {
  const std::size_t of_root = root.shown("").size();
  const std::string file = root.target_on_this_machine(plugin);
  std::string folder = file.empty() ? "" : file.substr(of_root);
  for (int level = 0; level <= kLevels && !folder.empty(); ++level) {
    folder.resize(folder.rfind('/'));
    for (const char* const place : {"/bin/rollcall", "/runtime/rollcall"}) {
      if (const std::string found = root.target_on_this_machine(folder + place); is_file(found)) {
        return found.substr(of_root);
      }
    }
  }
  return std::nullopt;
}

std::string hook_protocol(std::string_view bytes) {
  constexpr std::string_view kBefore = "rollcall-hook ";
  constexpr std::string_view kProtocol = "(protocol ";
  for (std::size_t at = bytes.find(kBefore); at != bytes.npos; at = bytes.find(kBefore, at + 1)) {
    const std::string_view rest = bytes.substr(at + kBefore.size());
    const std::size_t end = rest.find_first_not_of("0123456789", kProtocol.size());
    if (rest.starts_with(kProtocol) && end != rest.npos && end > kProtocol.size() && rest[end] == ')') {
      return std::string(rest.substr(0, end + 1));
    }
  }
  return "";
}

Result<void> check_program(const std::string& program, const std::string& plugin, std::string_view plugin_bytes,
                           const TrustedOwners& owners, const ImageRoot& root) {
  if (program.empty()) {
    return fail("plugin", root.shown(plugin), "has no bin/rollcall in a folder above it, which it needs",
                "copying the whole installation, or setting rollcall=PATH in plugstack.conf", ErrorKind::NotFound);
  }
  if (!program.starts_with('/') || !is_file(root.on_this_machine(program))) {
    return fail("plugstack.conf: rollcall", program, "is not a program that can be executed",
                "writing the full path of the program", ErrorKind::NotFound);
  }
  const TrustedOwners trusted = with_owner_of(root.on_this_machine(plugin), owners);
  RETURN_IF_ERROR(check_trusted(program, root, trusted, Sticky::Closed));
  const std::optional<std::string> bytes = read_file(root.on_this_machine(program));
  // A program that cannot be read is checked at the first step.
  return bytes ? check_protocols(root.shown(program), *bytes, root.shown(plugin), plugin_bytes) : Result<void>();
}

Result<void> check_protocols(const std::string& program, std::string_view program_bytes, const std::string& plugin,
                             std::string_view plugin_bytes) {
  const std::string its = hook_protocol(program_bytes);
  const std::string plugins = hook_protocol(plugin_bytes);
  return its == plugins
             ? Result<void>()
             : fail("program", program,
                    "is of " + or_another(its) + ", but the plugin " + plugin + " is of " + or_another(plugins),
                    "installing one version of both", ErrorKind::Mismatch);
}

}  // namespace rollcall::install

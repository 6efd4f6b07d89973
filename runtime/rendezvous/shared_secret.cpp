#include "runtime/rendezvous/shared_secret.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/base/owned_file.h"
#include "runtime/base/text.h"
#include "runtime/contract/env_vars.h"
#include "runtime/rendezvous/secret.h"
#include "runtime/settings/values.h"

namespace rollcall::rendezvous {
namespace {

constexpr const char* kSetting = "rendezvous.secret";
constexpr std::size_t kShortest = 32;  ///< characters, 128 bits in hexadecimal digits

Error no_secret(const std::string& path, const std::string& reason) {
  return fail(kSetting, path, reason,
              "creating a file that only you can read and that all nodes see: (umask 077; openssl rand -hex 32 > "
              "FILE)",
              ErrorKind::Unavailable);
}

std::string without_space_at_the_end(std::string text) {
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  return text;
}

/// Checks `text`, which was read from `path` unless `refusal` gives a reason.
Result<std::string> checked(const std::string& path, std::string text, const std::string& refusal) {
  if (!refusal.empty()) {
    return no_secret(path, refusal);
  }
  text = without_space_at_the_end(std::move(text));
  return text.size() < kShortest ? no_secret(path, fmt::format("has {}, but a secret needs at least {}",
                                                               counted(text.size(), "character"), kShortest))
                                 : Result<std::string>(std::move(text));
}

/// Returns the secret of this step from "JOB.STEP SECRET"; unset where this process inherited none.
std::optional<std::string> of_this_step(const Environment& environment) {
  const auto descriptor = parse_integer<int>(environment.get(env::kSecretFd).value_or(""));
  // Only a memory file has file seals; other files with that number, and those of other steps, are ignored.
  const int seals = descriptor ? fcntl(*descriptor, F_GET_SEALS) : -1;
  struct stat status {};
  if (seals < 0 || (seals & F_SEAL_WRITE) == 0 || fstat(*descriptor, &status) != 0 || status.st_uid != geteuid()) {
    return std::nullopt;
  }
  std::array<char, 4096> bytes{};  // read from the beginning, since processes share the offset of inherited descriptors
  const ssize_t count = pread(*descriptor, bytes.data(), bytes.size(), 0);
  const std::string text =
      without_space_at_the_end({bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count))});
  const std::string step = fmt::format("{}.{} ", environment.get(env::kSlurmJobId).value_or(""),
                                       environment.get(env::kSlurmStepId).value_or(""));
  return text.starts_with(step) && text.size() >= step.size() + kShortest ? std::optional(text.substr(step.size()))
                                                                          : std::nullopt;
}

/// Writes a temporary file and links it to `path`, which only one process can do. Returns "" or the error.
std::string make(const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::create_directories(folder.parent_path(), error);
  if (error || (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST)) {
    return "cannot be created: " + errno_text(error ? error.value() : errno);
  }
  const OpenedOutput file = create_beside(path, O_WRONLY, S_IRUSR | S_IWUSR);
  if (file.descriptor < 0) {
    return "cannot be created: " + file.reason;
  }
  const std::string text = draw_secret() + "\n";
  const ssize_t written = write(file.descriptor, text.data(), text.size());
  int problem = written < 0 ? errno : (static_cast<std::size_t>(written) == text.size() ? 0 : ENOSPC);
  problem = fsync(file.descriptor) != 0 && problem == 0 ? errno : problem;
  problem = close(file.descriptor) != 0 && problem == 0 ? errno : problem;
  if (problem == 0 && link(file.path.c_str(), path.c_str()) != 0 && errno != EEXIST) {
    problem = errno;
  }
  unlink(file.path.c_str());
  return problem == 0 ? "" : "cannot be created: " + errno_text(problem);
}

Result<std::string> of_this_user(const Environment& given) {
  const Environment environment = with_home_and_user(given);
  const auto state = environment.get_non_empty("XDG_STATE_HOME");
  const auto home = environment.get_non_empty("HOME");
  if (!state && !home) {
    return no_secret("", "is not set, and HOME is not set either");
  }
  const std::string path = (state ? *state : *home + "/.local/state") + "/rollcall/secret";
  std::string refusal;
  std::string text = read_private(path, refusal);
  if (text.empty() && refusal.empty()) {
    if (const std::string reason = make(path); !reason.empty()) {
      return no_secret(path, reason);
    }
    text = read_private(path, refusal);
  }
  return checked(path, std::move(text), refusal);
}

}  // namespace

Result<std::string> shared_secret(const Environment& environment, const settings::LaunchSettings& settings) {
  if (const std::string& configured = settings.rendezvous_secret; !configured.empty()) {
    ASSIGN_OR_RETURN(const std::string path, settings::expand_path(configured, environment, kSetting));
    std::string refusal;
    std::string text = read_private(path, refusal);
    if (text.empty() && refusal.empty()) {
      refusal = "does not exist, or is empty";
    }
    return checked(path, std::move(text), refusal);
  }
  std::optional<std::string> steps = of_this_step(environment);
  if (!steps && environment.get_non_empty(env::kStepSecret)) {
    Error error = fail(kSetting, environment.get(env::kSlurmNodeName).value_or("this node"),
                       "the plugin did not pass on the step's secret: this node has no plugin, or another version than "
                       "the node where srun ran",
                       "installing one version of the plugin on all nodes", ErrorKind::Mismatch);
    error.of_this_node = true;
    return error;
  }
  return steps ? Result<std::string>(*std::move(steps)) : of_this_user(environment);
}

}  // namespace rollcall::rendezvous

#include "runtime/rendezvous/endpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "runtime/base/result.h"
#include "runtime/base/text.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::string_view kFirstLine = "rollcall endpoint 1";
constexpr mode_t kModeBeforeUmask = 0666;

Error refuse(const std::filesystem::path& path, int error_number, ExitCode code) {
  return fail("rendezvous.folder", path.parent_path().string(), "cannot be written: " + errno_text(error_number),
              "a folder that exists and that all nodes can write", code);
}

/// All of `text` into a new file; returns 0 or errno.
int write_new(const std::filesystem::path& path, const std::string& text) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kModeBeforeUmask);
  if (file < 0) {
    return errno;
  }
  const ssize_t written = write(file, text.data(), text.size());
  int error = written < 0 ? errno : (static_cast<std::size_t>(written) == text.size() ? 0 : ENOSPC);
  if (close(file) != 0 && error == 0) {
    error = errno;  // NFS reports a full disk here
  }
  return error;
}

}  // namespace

std::string to_text(const Endpoint& endpoint) {
  const bool ipv6 = endpoint.host.find(':') != std::string::npos;
  return ipv6 ? fmt::format("[{}]:{}", endpoint.host, endpoint.port)
              : fmt::format("{}:{}", endpoint.host, endpoint.port);
}

std::optional<Endpoint> parse_endpoint(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) {
    return std::nullopt;
  }
  const auto port = parse_integer<std::uint16_t>(text.substr(colon + 1));
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return std::nullopt;
  }
  if (!port || *port == 0 || host.empty() || host.find_first_of(" \t\r\n[]") != std::string_view::npos) {
    return std::nullopt;
  }
  return Endpoint{std::string(host), *port};
}

Result<EndpointFile> EndpointFile::publish(const std::filesystem::path& path, const Endpoint& endpoint) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", getpid());
  const std::string text = fmt::format("{}\n{}\n", kFirstLine, to_text(endpoint));
  if (const int error = write_new(temporary, text); error != 0) {
    unlink(temporary.c_str());
    return refuse(path, error, error == ENOSPC || error == EDQUOT ? ExitCode::InputOutput : ExitCode::CannotCreate);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    const int error = errno;
    unlink(temporary.c_str());
    return refuse(path, error, ExitCode::CannotCreate);
  }
  return EndpointFile(path);
}

EndpointFile::EndpointFile(EndpointFile&& other) noexcept : path_(std::exchange(other.path_, {})) {}

EndpointFile& EndpointFile::operator=(EndpointFile&& other) noexcept {
  path_.swap(other.path_);
  return *this;
}

EndpointFile::~EndpointFile() {
  if (!path_.empty()) {
    unlink(path_.c_str());
  }
}

std::filesystem::path endpoint_file_path(const std::filesystem::path& folder, const job::JobFacts& facts) {
  const std::string step = facts.job_id ? fmt::format("{}-{}", *facts.job_id, facts.step_id.value_or(0))
                                        : fmt::format("user{}-{:08x}", getuid(), facts.port_salt);
  const std::string world = facts.first_rank == 0 ? "" : fmt::format("-from{}", facts.first_rank);
  return folder / fmt::format("rollcall-{}-{}{}.endpoint", step, facts.restart_count, world);
}

std::optional<Endpoint> read_endpoint_file(const std::filesystem::path& path) {
  // Reading the folder makes an NFS client drop its memory of "no such file", which can last a minute.
  if (DIR* const folder = opendir(path.parent_path().c_str()); folder != nullptr) {
    (void)readdir(folder);
    closedir(folder);
  }
  std::ifstream file(path);
  std::string first;
  std::string second;
  if (!std::getline(file, first) || !std::getline(file, second) || first != kFirstLine) {
    return std::nullopt;
  }
  return parse_endpoint(second);
}

}  // namespace rollcall::rendezvous

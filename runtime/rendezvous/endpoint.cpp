#include "runtime/rendezvous/endpoint.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/owned_file.h"
#include "runtime/base/result.h"
#include "runtime/base/text.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::string_view kFirstLine = "rollcall endpoint 3";
constexpr mode_t kUsersAlone = 0600;

Error refuse(const std::filesystem::path& path, const std::string& reason, int error_number) {
  const bool full = error_number == ENOSPC || error_number == EDQUOT;
  return fail("rendezvous.folder", path.parent_path().string(), "cannot be written: " + reason,
              what_to_try(error_number, "giving an existing folder of your own that all nodes can write"),
              full ? ErrorKind::InputOutput : ErrorKind::CannotCreate);
}

/// Writes `text` to a new file. Returns "", or why that failed or the file is not this user's; `error` is errno where
/// that is the reason.
std::string write_new(const std::filesystem::path& path, const std::string& text, int& error) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kUsersAlone);
  if (file < 0) {
    error = errno;
    return errno_text(error);
  }
  struct stat status {};
  const bool known = fstat(file, &status) == 0;
  const ssize_t written = write(file, text.data(), text.size());
  error = written < 0 ? errno : (static_cast<std::size_t>(written) == text.size() ? 0 : ENOSPC);
  if (close(file) != 0 && error == 0) {
    error = errno;  // NFS reports a full disk here
  }
  if (error == 0 && known && status.st_uid != geteuid()) {
    return fmt::format("files there belong to user {}, whoever writes them", status.st_uid);
  }
  return error == 0 ? "" : errno_text(error);
}

}  // namespace

std::string to_text(const Endpoint& endpoint) { return host_and_port(endpoint.host, std::to_string(endpoint.port)); }

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

Result<EndpointFile> EndpointFile::publish(const std::filesystem::path& path, const Endpoint& endpoint,
                                           const std::string& name, const std::string& secret) {
  std::filesystem::path temporary = path;
  temporary += fmt::format(".{}.tmp", new_nonce());
  const std::string text = fmt::format("{}\n{}\n{} {}\n", kFirstLine, to_text(endpoint), name, secret);
  int error = 0;
  if (const std::string reason = write_new(temporary, text, error); !reason.empty()) {
    unlink(temporary.c_str());
    return refuse(path, reason, error);
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    error = errno;
    unlink(temporary.c_str());
    struct stat status {};
    const std::string other = lstat(path.c_str(), &status) == 0 ? why_not_private(status) : "";
    return refuse(path, other.empty() ? errno_text(error) : fmt::format("{} {}", path.filename().string(), other),
                  error);
  }
  return EndpointFile(path, name, secret);
}

EndpointFile::EndpointFile(EndpointFile&& other) noexcept
    : path_(std::exchange(other.path_, {})), name_(std::move(other.name_)), secret_(std::move(other.secret_)) {}

EndpointFile& EndpointFile::operator=(EndpointFile&& other) noexcept {
  path_.swap(other.path_);
  name_.swap(other.name_);
  secret_.swap(other.secret_);
  return *this;
}

EndpointFile::~EndpointFile() {
  // A later run of the same name may have replaced the file.
  if (!path_.empty() && read_endpoint_file(path_, name_).secret == secret_) {
    unlink(path_.c_str());
  }
}

std::filesystem::path endpoint_file_path(const std::filesystem::path& folder, const job::JobFacts& facts) {
  return folder / fmt::format("rollcall-{}.endpoint", world_name(facts));
}

EndpointReading read_endpoint_file(const std::filesystem::path& path, const std::string& name) {
  // Reading the folder makes an NFS client drop a cached "no such file", which can last a minute.
  if (DIR* const folder = opendir(path.parent_path().c_str()); folder != nullptr) {
    (void)readdir(folder);
    closedir(folder);
  }
  EndpointReading reading;
  const std::vector<std::string> lines = split(read_private(path.string(), reading.refusal), '\n');
  if (lines.size() < 4 || lines[0] != kFirstLine) {  // the end of the third line yields a fourth, empty one
    return reading;
  }
  const std::vector<std::string> world = split(lines[2], ' ');
  if (world.size() != 2 || world[0] != name) {
    reading.refusal = fmt::format("belongs to {}, not to {}", world.empty() ? "no world" : world.front(), name);
    return reading;
  }
  reading.endpoint = parse_endpoint(lines[1]);
  reading.secret = world[1];
  return reading;
}

}  // namespace rollcall::rendezvous

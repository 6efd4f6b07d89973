#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::rendezvous {

/// Where rank 0 listens.
struct Endpoint {
  std::string host;  ///< a name or an address, without brackets
  std::uint16_t port = 0;
};

/// Returns "jwb0001i:29500" or "[fd00::1]:29500".
[[nodiscard]] std::string to_text(const Endpoint& endpoint);
/// Parses what to_text() returns; unset where `text` is not an endpoint or the port is 0.
[[nodiscard]] std::optional<Endpoint> parse_endpoint(std::string_view text);

/// The file in which rank 0 publishes its endpoint and the world's secret, on a file system that all nodes share. Only
/// its user can read it. It is written under another name and renamed, so that readers see all of it or nothing, and
/// removed on destruction. Movable.
class EndpointFile {
 public:
  /// `name`: world_name(). `secret`: from draw_secret(), for this world alone.
  /// Errors (CannotCreate, InputOutput): the folder cannot be written, another user's file has that name, or files
  /// there do not belong to the user who writes them, so that their owner could not be verified.
  [[nodiscard]] static Result<EndpointFile> publish(const std::filesystem::path& path, const Endpoint& endpoint,
                                                    const std::string& name, const std::string& secret);

  EndpointFile(const EndpointFile&) = delete;
  EndpointFile& operator=(const EndpointFile&) = delete;
  EndpointFile(EndpointFile&& other) noexcept;
  EndpointFile& operator=(EndpointFile&& other) noexcept;
  ~EndpointFile();

 private:
  EndpointFile(std::filesystem::path path, std::string name, std::string secret)
      : path_(std::move(path)), name_(std::move(name)), secret_(std::move(secret)) {}

  std::filesystem::path path_;  ///< empty: moved from
  std::string name_;
  std::string secret_;
};

/// Returns FOLDER/rollcall-WORLD.endpoint, with world_name().
[[nodiscard]] std::filesystem::path endpoint_file_path(const std::filesystem::path& folder, const job::JobFacts& facts);

/// The present content of an endpoint file.
struct EndpointReading {
  std::optional<Endpoint> endpoint = {};  ///< unset where the file is absent, incomplete, or refused
  std::string secret = {};                ///< what rank 0 drew
  std::string refusal = {};               ///< why the file is not trusted: "belongs to user 1001, not to you"
};

/// Reads the file for a rank of world `name`. Trusts only a file that belongs to the user, that nobody else can read or
/// write, and that names this world. Does not check whether rank 0 still listens at the endpoint.
[[nodiscard]] EndpointReading read_endpoint_file(const std::filesystem::path& path, const std::string& name);

}  // namespace rollcall::rendezvous

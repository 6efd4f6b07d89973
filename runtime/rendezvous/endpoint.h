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

/// "jwb0001i:29500", "[fd00::1]:29500".
[[nodiscard]] std::string to_text(const Endpoint& endpoint);
/// The reverse of to_text; nothing where `text` is no endpoint or the port is 0.
[[nodiscard]] std::optional<Endpoint> parse_endpoint(std::string_view text);

/// The file by which rank 0 tells the others its endpoint and their world's secret, on a file system that all nodes
/// share. Only its user can read it. Written beside and renamed, so that a reader sees all of it or nothing; removed
/// when the object dies. Movable.
class EndpointFile {
 public:
  /// `name`: world_name(). `secret`: draw_secret()'s, of this world alone.
  /// Errors (CannotCreate, InputOutput): the folder cannot be written, another user's file is in the way, or files
  /// there are not of the user who writes them, so that nobody could tell whose they are.
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

/// FOLDER/rollcall-WORLD.endpoint, with world_name().
[[nodiscard]] std::filesystem::path endpoint_file_path(const std::filesystem::path& folder, const job::JobFacts& facts);

/// What an endpoint file says now.
struct EndpointReading {
  std::optional<Endpoint> endpoint = {};  ///< nothing where the file is absent, not (wholly) an endpoint, or refused
  std::string secret = {};                ///< what rank 0 drew
  std::string refusal = {};               ///< why what is there is not believed: "belongs to user 1001, not to you"
};

/// Reads it for a rank of world `name`. Believed is only a file that belongs to the user, that nobody else may write
/// to or read, and that names this world; whether rank 0 still listens there is another question.
[[nodiscard]] EndpointReading read_endpoint_file(const std::filesystem::path& path, const std::string& name);

}  // namespace rollcall::rendezvous

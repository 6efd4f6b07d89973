#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/base/result.h"
#include "runtime/job/job_facts.h"

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

/// The file by which rank 0 tells the others its endpoint, on a file system that all nodes share. Written beside and
/// renamed, so that a reader sees all of it or nothing; removed when the object dies. Movable.
class EndpointFile {
 public:
  /// Errors (CannotCreate, InputOutput): the folder cannot be written.
  [[nodiscard]] static Result<EndpointFile> publish(const std::filesystem::path& path, const Endpoint& endpoint);

  EndpointFile(const EndpointFile&) = delete;
  EndpointFile& operator=(const EndpointFile&) = delete;
  EndpointFile(EndpointFile&& other) noexcept;
  EndpointFile& operator=(EndpointFile&& other) noexcept;
  ~EndpointFile();

 private:
  explicit EndpointFile(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  ///< empty: moved from
};

/// FOLDER/rollcall-JOB-STEP-RESTART.endpoint: unique per step and per start of a requeued job; with "-fromRANK" for the
/// later worlds of a step with several. Outside Slurm's steps the user's number and the launcher's run stand for job
/// and step.
[[nodiscard]] std::filesystem::path endpoint_file_path(const std::filesystem::path& folder, const job::JobFacts& facts);

/// What the file says now; nothing where it is absent or not (wholly) an endpoint.
[[nodiscard]] std::optional<Endpoint> read_endpoint_file(const std::filesystem::path& path);

}  // namespace rollcall::rendezvous

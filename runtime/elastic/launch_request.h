#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/base/result.h"
#include "runtime/elastic/options.h"
#include "runtime/rendezvous/endpoint.h"

namespace rollcall::elastic {

/// Standard streams as torchrun numbers them: 1 is standard output, 2 standard error, 3 both.
struct Streams {
  bool out = false;
  bool err = false;
  bool operator==(const Streams&) const = default;
};

/// A choice of streams: the same for all workers, or by local rank.
class StreamChoice {
 public:
  StreamChoice() = default;
  explicit StreamChoice(Streams all) : all_(all) {}
  explicit StreamChoice(std::map<std::uint32_t, Streams> by_rank) : by_rank_(std::move(by_rank)) {}
  [[nodiscard]] Streams of(std::uint32_t local_rank) const;
  [[nodiscard]] bool any() const;

 private:
  Streams all_;
  std::map<std::uint32_t, Streams> by_rank_;
};

/// Where the workers' output is written.
struct LogRequest {
  std::string folder;  ///< --log-dir; empty: not given
  StreamChoice redirects;
  StreamChoice tee;
  std::string line_prefix = "[${role_name}${local_rank}]:";
  std::set<std::uint32_t> shown;  ///< local ranks shown on the terminal; empty: all
  std::vector<std::string> out_filters;
  std::vector<std::string> err_filters;
};

/// How this node finds the other nodes.
struct MeetingRequest {
  bool alone = false;                                    ///< one node, without other agents
  std::optional<rendezvous::Endpoint> workers_endpoint;  ///< alone, with --master-port: the endpoint for the workers
  rendezvous::Endpoint endpoint;                         ///< where the agents meet
  std::optional<std::uint32_t> node_rank;                ///< static backend: this node's number
  std::optional<bool>
      host;  ///< whether this agent listens at the endpoint; unset: it does where the endpoint is on this host
  std::string run_id;
  std::string secret_file;    ///< --rdzv-conf=secret=FILE; empty: not given
  std::string secret;         ///< from which the run's secrets are derived (rendezvous/secret.h); set by the caller
  std::string local_address;  ///< empty: detected
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};
  std::chrono::milliseconds heartbeat_timeout{2'000};
  std::vector<Error> warnings;  ///< for keys of --rdzv-conf without effect
};

/// The complete, validated request of `rollcall run`.
struct LaunchRequest {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t workers = 1;  ///< on this node
  MeetingRequest meeting;
  std::string role;
  std::uint32_t max_restarts = 0;
  std::uint32_t give_up_after = 8;
  std::chrono::seconds shutdown_timeout{30};
  bool standby = true;               ///< keep one extra process ready to replace a worker, for programs that support it
  std::vector<int> signals;          ///< signals that end the run
  std::vector<std::string> program;  ///< name first; ${local_rank} in the arguments is not yet replaced
  LogRequest logs;
  bool virtual_local_rank = false;
};

/// What the result depends on besides the options.
struct HostFacts {
  std::uint32_t cpus = 1;  ///< CPUs that this process may use
  std::uint32_t gpus = 0;  ///< visible GPUs of NVIDIA or AMD
  std::uint32_t xpus = 0;  ///< visible GPUs of Intel
  std::string new_run_id;  ///< random id for a run of one node
};

/// The value of --nnodes.
struct NodeRange {
  std::uint32_t least = 1;
  std::uint32_t most = 1;
};

/// Returns the part of launch_request() that concerns finding the other nodes.
[[nodiscard]] Result<MeetingRequest> meeting_request(const settings::Settings& values, const NodeRange& nodes,
                                                     const HostFacts& host);

/// Interprets the options. `environment` provides PYTHON_EXEC, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE and
/// TORCH_ELASTIC_SHUTDOWN_TIMEOUT. A run of one node without an explicit endpoint is alone, as with --standalone.
/// Errors (Usage): contradictory or invalid values, and features of torchrun that rollcall lacks (etcd, Python plugins
/// for logs). Pure.
[[nodiscard]] Result<LaunchRequest> launch_request(const RunOptions& options, const Environment& environment,
                                                   const HostFacts& host);

/// Parses "3" or "0:3,1:1", the values of --redirects and --tee; unset for other texts.
[[nodiscard]] std::optional<StreamChoice> parse_streams(std::string_view text);

}  // namespace rollcall::elastic

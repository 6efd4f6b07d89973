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

/// Standard streams, as torchrun's numbers name them: 1 is standard output, 2 standard error, 3 both.
struct Streams {
  bool out = false;
  bool err = false;
  bool operator==(const Streams&) const = default;
};

/// For which workers: all alike, or by local rank.
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

/// Where the workers' output goes.
struct LogRequest {
  std::string folder;  ///< --log-dir; empty: none was named
  StreamChoice redirects;
  StreamChoice tee;
  std::string line_prefix = "[${role_name}${local_rank}]:";
  std::set<std::uint32_t> shown;  ///< local ranks that show on the terminal; empty: all
  std::vector<std::string> out_filters;
  std::vector<std::string> err_filters;
};

/// How this node finds the others.
struct MeetingRequest {
  bool alone = false;                                    ///< one node: there is nobody to meet
  std::optional<rendezvous::Endpoint> workers_endpoint;  ///< alone, with --master-port: what the workers are to use
  rendezvous::Endpoint endpoint;                         ///< where the nodes meet
  std::optional<std::uint32_t> node_rank;                ///< with the static backend: this node's number
  std::optional<bool> host;  ///< whether this agent holds the endpoint; nothing: where the endpoint is this host
  std::string run_id;
  std::string secret_file;    ///< --rdzv-conf=secret=FILE; empty: none was named
  std::string secret;         ///< what the run's secrets are made of (rendezvous/secret.h), which whoever calls finds
  std::string local_address;  ///< empty: found out
  std::chrono::milliseconds join_timeout{600'000};
  std::chrono::milliseconds last_call_timeout{30'000};
  std::chrono::milliseconds heartbeat_timeout{2'000};
  std::vector<Error> warnings;  ///< of keys of --rdzv-conf that have no effect
};

/// All that `rollcall run` is to do, checked and in the types of those who do it.
struct LaunchRequest {
  std::uint32_t min_nodes = 1;
  std::uint32_t max_nodes = 1;
  std::uint32_t workers = 1;  ///< on this node
  MeetingRequest meeting;
  std::string role;
  std::uint32_t max_restarts = 0;
  std::uint32_t give_up_after = 8;
  std::chrono::seconds shutdown_timeout{30};
  bool standby = true;               ///< for programs that live on: one more process is ready to take a place
  std::vector<int> signals;          ///< that end the run
  std::vector<std::string> program;  ///< name first; ${local_rank} in its arguments is still to be replaced
  LogRequest logs;
  bool virtual_local_rank = false;
};

/// What the answer depends on besides the options.
struct HostFacts {
  std::uint32_t cpus = 1;  ///< that this process may use
  std::uint32_t gpus = 0;  ///< of NVIDIA or AMD that it sees
  std::uint32_t xpus = 0;  ///< of Intel
  std::string new_run_id;  ///< for a run that is alone: drawn at random
};

/// --nnodes
struct NodeRange {
  std::uint32_t least = 1;
  std::uint32_t most = 1;
};

/// The part of launch_request() that is about finding the other nodes.
[[nodiscard]] Result<MeetingRequest> meeting_request(const settings::Settings& values, const NodeRange& nodes,
                                                     const HostFacts& host);

/// What the options mean. `environment` gives PYTHON_EXEC, TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE and
/// TORCH_ELASTIC_SHUTDOWN_TIMEOUT. A run of one node whose endpoint nobody named is alone, as with --standalone.
/// Errors (Usage): contradictions and values that make no sense; what torchrun has and rollcall has not (etcd, Python
/// plugins for logs). Pure.
[[nodiscard]] Result<LaunchRequest> launch_request(const RunOptions& options, const Environment& environment,
                                                   const HostFacts& host);

/// "3", or "0:3,1:1": --redirects and --tee. Nothing where it is neither.
[[nodiscard]] std::optional<StreamChoice> parse_streams(std::string_view text);

}  // namespace rollcall::elastic

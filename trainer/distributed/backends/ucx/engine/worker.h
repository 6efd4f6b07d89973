#pragma once

#include <ucp/api/ucp.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "trainer/distributed/algorithms/execution.h"
#include "trainer/distributed/backends/ucx/engine/context.h"
#include "trainer/distributed/backends/ucx/engine/messages.h"
#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group::ucx {

/// A group's UCP worker: it has endpoints to all peers, sends and receives tagged messages, and notices peers that die
/// or leave. One thread at a time, except for wake() and await_event().
///
/// The end of a peer is noticed by its process or its endpoint (a reset socket, or keep-alive). A peer that fails
/// notifies all others of the reason. One that ends its group in good order announces it, so that its closed endpoints
/// are not taken for a failure.
class Worker final : public Transport {
 public:
  /// Errors (Unavailable): UCX cannot provide a worker (memory in /dev/shm, sockets).
  [[nodiscard]] static Result<std::unique_ptr<Worker>> create(std::shared_ptr<Context> context, std::uint32_t rank,
                                                              std::uint32_t world_size, const RankNames& names,
                                                              std::shared_ptr<ProcessWatch> processes);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// Calls shutdown() and closes the endpoints. Takes milliseconds, or at most 2 s if a peer hangs.
  ~Worker() override;

  /// Returns the address of this worker, bytes, for connect() of the others.
  [[nodiscard]] std::string address() const;
  /// Opens endpoints to all other ranks. `addresses` by rank; `generation` the same on all of them.
  [[nodiscard]] Result<void> connect(const std::vector<std::string>& addresses, std::uint32_t generation);
  /// Watches the process `identity` of `peer` if it is on this host (see process_identity()). Otherwise its end shows
  /// in a reset socket or, over shared memory, at UCX's next keep-alive.
  void watch(std::uint32_t peer, const std::string& identity) {
    processes_->add(peers_.names().number(peer), identity);
  }

  [[nodiscard]] Request send(std::uint32_t peer, MessageId name, const void* data, std::size_t bytes) override;
  [[nodiscard]] Request receive(std::uint32_t peer, MessageId name, void* data, std::size_t bytes) override;
  [[nodiscard]] RequestState test(Request request) override { return messages_.test(request); }

  /// Progresses messages, and handles peers whose processes have ended. Returns whether messages or UCX's keep-alive
  /// progressed.
  bool progress();
  /// Makes later events end await_event(). Returns false if there is something to do at once.
  [[nodiscard]] bool arm();
  /// The names of the descriptors that await_event() found ready.
  using Events = std::vector<std::uint64_t>;
  /// Waits for an event after arm(), for wake(), or for at most `longest`. Other threads may use the worker meanwhile;
  /// they call arm() afterwards.
  [[nodiscard]] Events await_event(std::chrono::milliseconds longest) const;
  /// Resets wake().
  void handle(const Events& events);
  /// Sets whether messages end await_event(). Off while another thread progresses them.
  void let_messages_wake(bool wakes) const;
  /// Ends await_event(). May be called by any thread, also in a signal handler.
  void wake() const;

  [[nodiscard]] Peers& peers() { return peers_; }
  [[nodiscard]] const Peers& peers() const { return peers_; }
  /// Cancels all receives, which no longer write to their memory. Then notifies all others of the failure, or that this
  /// rank leaves in good order, and waits for their acknowledgements: milliseconds, at most 300. Call it once.
  void shutdown();

 private:
  struct Endpoint {
    Worker* worker = nullptr;
    std::uint32_t peer = 0;
    ucp_ep_h handle = nullptr;
  };
  /// The message of a rank to all others when it leaves the group, and their acknowledgement.
  struct Notice {
    enum Kind : std::uint32_t { Left, Failed, Acknowledged } kind = Left;
    std::uint32_t rank = 0;  ///< Failure::rank, for Failed
  };

  Worker(std::shared_ptr<Context> context, std::uint32_t rank, std::uint32_t world_size, const RankNames& names,
         std::shared_ptr<ProcessWatch> processes);
  [[nodiscard]] Result<void> open();
  static void on_endpoint_error(void* endpoint, ucp_ep_h handle, ucs_status_t status);
  void await_events_of(int descriptor, std::uint64_t name) const;
  /// Calls arm(), await_event() and handle(); yields to other threads if there is something to do at once.
  void sleep(std::chrono::milliseconds longest);
  void lose_ended();
  [[nodiscard]] Request post_send(std::uint32_t peer, std::uint64_t tag, const void* data, std::size_t bytes);
  void await_notice();
  void read_notice();
  void send_notice(std::uint32_t peer, const Notice& notice);
  void notify_all();
  [[nodiscard]] bool is_reachable(const Endpoint& endpoint) const;
  void close_endpoints();
  template <typename Condition>
  void progress_until(const Condition& done, std::chrono::milliseconds longest);

  std::shared_ptr<Context> context_;
  std::uint32_t rank_;
  Peers peers_;
  Messages messages_{peers_};
  const std::shared_ptr<ProcessWatch> processes_;  ///< watches the peers and other ranks
  std::atomic<bool> some_ended_{false};
  std::size_t known_ended_ = 0;
  ucp_worker_h handle_ = nullptr;
  int event_fd_ = -1;  ///< UCX's own descriptor
  int wake_fd_ = -1;
  int epoll_fd_ = -1;                ///< waits for event_fd_ and wake_fd_
  std::vector<Endpoint> endpoints_;  ///< by rank; this rank's own has no handle
  Tags tags_{0};
  Notice incoming_, outgoing_;
  Notice answer_{Notice::Acknowledged, 0};
  std::vector<Request> notices_sent_;
  Request notice_ = nullptr;  ///< the pending receive of `incoming_`
  bool is_shut_down_ = false;
};

}  // namespace rollcall::process_group::ucx

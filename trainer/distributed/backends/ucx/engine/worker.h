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

/// A group's UCP worker: endpoints to all peers, messages by tag, and news of peers that died or left. One thread at a
/// time, but for wake() and await_event().
///
/// A peer that dies is noticed by its process or through the endpoint to it (a reset socket, or keep-alive), a peer
/// that fails tells all others why, and one that ends its group in good order says so first, so that its closed
/// endpoints alarm nobody.
class Worker final : public Transport {
 public:
  /// Errors (Unavailable): UCX cannot provide a worker (memory in /dev/shm, sockets).
  [[nodiscard]] static Result<std::unique_ptr<Worker>> create(std::shared_ptr<Context> context, std::uint32_t rank,
                                                              std::uint32_t world_size, const RankNames& names,
                                                              std::shared_ptr<ProcessWatch> processes);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  /// shutdown(), closes the endpoints. At most 2 s, where a peer is hung; else milliseconds.
  ~Worker() override;

  /// How others reach this worker; bytes, for connect().
  [[nodiscard]] std::string address() const;
  /// Opens endpoints to all other ranks. `addresses` by rank; `generation` the same on all of them.
  [[nodiscard]] Result<void> connect(const std::vector<std::string>& addresses, std::uint32_t generation);
  /// Loses `peer` as soon as its process ends, where that is one of this host: see process_identity(). Without it, that
  /// shows in a reset socket or, through shared memory, at UCX's next keep-alive.
  void watch(std::uint32_t peer, const std::string& identity) {
    processes_->add(peers_.names().number(peer), identity);
  }

  [[nodiscard]] Request send(std::uint32_t peer, MessageName name, const void* data, std::size_t bytes) override;
  [[nodiscard]] Request receive(std::uint32_t peer, MessageName name, void* data, std::size_t bytes) override;
  [[nodiscard]] RequestState test(Request request) override { return messages_.test(request); }

  /// Messages outside of collectives; equal tags between the same ranks arrive in order. No `peer`: from anybody.
  [[nodiscard]] Request send_tagged(std::uint32_t peer, std::uint32_t tag, const void* data, std::size_t bytes);
  [[nodiscard]] Request receive_tagged(std::optional<std::uint32_t> peer, std::uint32_t tag, void* data,
                                       std::size_t bytes);
  /// Of the receive that test() called done last.
  [[nodiscard]] std::uint32_t last_source() const { return messages_.last_source(); }

  /// Moves messages, and loses peers whose processes have ended; whether messages or UCX's keep-alive moved.
  bool progress();
  /// Makes what happens from now on end await_event(). False where there is something to do at once.
  [[nodiscard]] bool arm();
  /// What await_event() saw: names of descriptors.
  using Events = std::vector<std::uint64_t>;
  /// Until something happens after arm(), wake() or `longest`. Others may use the worker meanwhile; they call arm()
  /// when they are through.
  [[nodiscard]] Events await_event(std::chrono::milliseconds longest) const;
  /// Takes back wake().
  void handle(const Events& events);
  /// Whether messages end await_event(): not while another thread sees to them.
  void let_messages_wake(bool wakes) const;
  /// Ends await_event(). Any thread, also a signal handler.
  void wake() const;

  [[nodiscard]] Peers& peers() { return peers_; }
  [[nodiscard]] const Peers& peers() const { return peers_; }
  /// Receives no more: what was posted leaves its memory alone from now on. Then tells all others of the failure, or
  /// that this rank leaves in good order, and waits until they have heard it: milliseconds, at most 300. Once.
  void shutdown();

 private:
  struct Endpoint {
    Worker* worker = nullptr;
    std::uint32_t peer = 0;
    ucp_ep_h handle = nullptr;
  };
  /// What a rank tells all others when it leaves the group, and what they answer.
  struct Notice {
    enum Kind : std::uint32_t { Left, Failed, Heard } kind = Left;
    std::uint32_t rank = 0;  ///< of Failed: Failure::rank
  };

  Worker(std::shared_ptr<Context> context, std::uint32_t rank, std::uint32_t world_size, const RankNames& names,
         std::shared_ptr<ProcessWatch> processes);
  [[nodiscard]] Result<void> open();
  static void on_endpoint_error(void* endpoint, ucp_ep_h handle, ucs_status_t status);
  void await_events_of(int descriptor, std::uint64_t name) const;
  /// arm(), await_event() and handle(); gives way to other threads where there is something to do at once.
  void sleep(std::chrono::milliseconds longest);
  void lose_ended();
  [[nodiscard]] Request post_send(std::uint32_t peer, std::uint64_t tag, const void* data, std::size_t bytes);
  void await_notice();
  void read_notice();
  void send_notice(std::uint32_t peer, const Notice& notice);
  void tell_all();
  [[nodiscard]] bool is_reachable(const Endpoint& endpoint) const;
  void close_endpoints();
  template <typename Condition>
  void progress_until(const Condition& done, std::chrono::milliseconds longest);

  std::shared_ptr<Context> context_;
  std::uint32_t rank_;
  Peers peers_;
  Messages messages_{peers_};
  const std::shared_ptr<ProcessWatch> processes_;  ///< of the peers, and other ranks
  std::atomic<bool> some_ended_{false};
  std::size_t known_ended_ = 0;
  ucp_worker_h handle_ = nullptr;
  int event_fd_ = -1;  ///< UCX's own
  int wake_fd_ = -1;
  int epoll_fd_ = -1;                ///< those two
  std::vector<Endpoint> endpoints_;  ///< by rank; this rank's own has no handle
  Tags tags_{0};
  Notice incoming_, outgoing_;
  Notice answer_{Notice::Heard, 0};
  std::vector<Request> notices_sent_;
  Request notice_ = nullptr;  ///< the receive of `incoming_`
  bool is_shut_down_ = false;
};

}  // namespace rollcall::process_group::ucx

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/environment.h"
#include "runtime/rendezvous/event_loop.h"

// Between an agent and each of its workers there is a pair of connected sockets (unix(7), SOCK_SEQPACKET: messages keep
// their boundaries). A worker inherits its end, whose number is in ROLLCALL_AGENT_LINK. Programs that do not use it are
// restarted when their world changes. A worker that has sent "lives on" receives "hold" or "hold, ranks are lost"
// instead: it leaves its process group, keeps its state in memory, answers "held", and receives the variables of the
// next generation. A worker whose peers do not respond before a "hold" sends "waits in vain".
namespace rollcall::elastic {

using rendezvous::EventLoop;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The agent's end. Nothing that a worker sends or leaves unread delays the agent. Not thread-safe.
class WorkerLink {
 public:
  struct Made {
    std::unique_ptr<WorkerLink> link;
    int worker_end = -1;  ///< for the worker to inherit; the caller closes it afterwards
  };
  /// Creates a link. `loop` must outlive it, and wakes up when the worker sends something. Unset where no descriptors
  /// are left: the worker then runs like a program that does not use links.
  [[nodiscard]] static std::optional<Made> make(EventLoop& loop);
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;
  ~WorkerLink();

  /// Accepts messages from this process only: a child of a script shares the socket, but is not a worker.
  void listen_to(pid_t worker) { worker_ = worker; }
  /// Returns whether the worker would survive if its generation ended now. It sends this anew in each generation.
  [[nodiscard]] bool survives() const { return state_ != State::Silent; }
  /// Returns whether the worker has left its generation.
  [[nodiscard]] bool held() const { return state_ == State::Held; }

  /// Returns why the worker waits for unresponsive peers, if it has reported that since the last call.
  [[nodiscard]] std::optional<std::string> take_stall_report() { return std::exchange(stall_, std::nullopt); }

  /// Asks the worker to leave its generation. `lost`: other workers of it are gone, so that waiting for them is
  /// useless.
  void hold(bool lost);
  /// Sends the variables of the generation that the worker belongs to from now on.
  void begin(const Variables& variables);

 private:
  enum class State { Silent, Survives, HoldSent, Held };
  WorkerLink(EventLoop& loop, int descriptor);
  void listen();
  void send(std::string_view message);
  void close_end();

  EventLoop& loop_;
  pid_t worker_ = 0;
  int descriptor_ = -1;  ///< -1: the worker has closed its end
  State state_ = State::Silent;
  std::optional<std::string> stall_;
};

/// The worker's end. Thread-safe, but only one thread may wait for generations.
class AgentLink : public std::enable_shared_from_this<AgentLink> {
 public:
  /// Returns the link of ROLLCALL_AGENT_LINK; null where no agent started this process. Programs that this process
  /// starts do not inherit it.
  [[nodiscard]] static std::shared_ptr<AgentLink> of(const Environment& environment);
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;
  ~AgentLink();

  /// Reports that this process survives its generation from now on.
  void announce_survival() const;
  /// Returns whether the agent has ended the generation. Does not wait.
  [[nodiscard]] bool hold_requested();
  /// Returns that check for the present generation; it also returns true once another one has begun. Keeps the link
  /// alive.
  [[nodiscard]] std::function<bool()> end_of_generation();
  /// Returns a check whether workers of the present generation are lost, which also returns true once another
  /// generation has begun. Keeps the link alive.
  [[nodiscard]] std::function<bool()> loss_in_generation();
  /// Waits up to `patience` for the end of the generation; returns whether it has ended.
  [[nodiscard]] bool await_hold(std::chrono::milliseconds patience);
  /// Reports that peers do not respond: a process may hang without having ended.
  void report_stall(const std::string& reason) const;
  /// Reports that this process has left its generation, and waits for the variables of the next one. Unset where the
  /// agent is gone.
  [[nodiscard]] std::optional<Variables> next_generation();
  /// Waits likewise in a process that has not been in a generation (ROLLCALL_STANDBY).
  [[nodiscard]] std::optional<Variables> first_generation();

 private:
  explicit AgentLink(int descriptor) : descriptor_(descriptor) {}
  void listen(std::chrono::milliseconds patience);
  [[nodiscard]] std::optional<Variables> await_begin();

  const int descriptor_;
  std::mutex mutex_;              ///< protects the members below
  std::uint32_t generation_ = 0;  ///< number of generations before the present one
  bool hold_ = false;
  bool lost_ = false;
  bool gone_ = false;
  std::optional<Variables> begin_;
};

}  // namespace rollcall::elastic

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

// Between an agent and each of its workers there is a pair of connected sockets (unix(7), SOCK_SEQPACKET: messages are
// whole or not there). A worker inherits its end, whose number ROLLCALL_AGENT_LINK says. Programs that do not know of
// it are stopped and started anew when their world changes. One that says "lives on" is told "hold" instead, or "hold,
// ranks are lost": it lets go of its process group, keeps what it has in memory, answers "held", and is told the
// variables of the next generation. One whose peers do not answer, while nobody has told it to hold, says "waits in
// vain".
namespace rollcall::elastic {

using rendezvous::EventLoop;

using Variables = std::vector<std::pair<std::string, std::string>>;

/// The agent's end. What a worker says or leaves unread holds up nothing. Not thread-safe.
class WorkerLink {
 public:
  struct Made {
    std::unique_ptr<WorkerLink> link;
    int worker_end = -1;  ///< for the worker to inherit; the caller closes it then
  };
  /// `loop` outlives the link, and wakes up when the worker says something. Nothing where there are no descriptors
  /// left: the worker is one of those that do not know of links.
  [[nodiscard]] static std::optional<Made> make(EventLoop& loop);
  WorkerLink(const WorkerLink&) = delete;
  WorkerLink& operator=(const WorkerLink&) = delete;
  ~WorkerLink();

  /// Only this process is heard: a script's child has the same end of the socket, but is no worker.
  void listen_to(pid_t worker) { worker_ = worker; }
  /// Whether the worker would live on if its generation ended now. It says so anew in each.
  [[nodiscard]] bool lives_on() const { return state_ != State::Silent; }
  /// Whether it has let go of its generation.
  [[nodiscard]] bool held() const { return state_ == State::Held; }

  /// Why the worker waits in vain for others, if it has said so since the last call. In this generation.
  [[nodiscard]] std::optional<std::string> take_complaint() { return std::exchange(complaint_, std::nullopt); }

  /// `lost`: other workers of its generation are gone, so that it would wait for them in vain.
  void hold(bool lost);
  /// `variables`: of the generation that the worker belongs to from now on.
  void begin(const Variables& variables);

 private:
  enum class State { Silent, LivesOn, Told, Held };
  WorkerLink(EventLoop& loop, int descriptor);
  void listen();
  void say(std::string_view message);
  void close_end();

  EventLoop& loop_;
  pid_t worker_ = 0;
  int descriptor_ = -1;  ///< -1: the worker has closed its end
  State state_ = State::Silent;
  std::optional<std::string> complaint_;
};

/// The worker's end. Thread-safe, except that one thread alone waits for generations.
class AgentLink : public std::enable_shared_from_this<AgentLink> {
 public:
  /// What ROLLCALL_AGENT_LINK says; null where no agent has started this process. Programs that this one starts do not
  /// inherit it.
  [[nodiscard]] static std::shared_ptr<AgentLink> of(const Environment& environment);
  AgentLink(const AgentLink&) = delete;
  AgentLink& operator=(const AgentLink&) = delete;
  ~AgentLink();

  /// Says that this process lives on from now on.
  void live_on() const;
  /// Whether the agent has said that the generation is over. Does not wait.
  [[nodiscard]] bool told_to_hold();
  /// The same of the present generation, also when another one has begun meanwhile. Keeps the link alive.
  [[nodiscard]] std::function<bool()> end_of_generation();
  /// Whether it has said of the present generation that workers are lost, or another generation has begun meanwhile.
  /// Keeps the link alive.
  [[nodiscard]] std::function<bool()> loss_in_generation();
  /// Waits for the end of the generation, at most so long.
  [[nodiscard]] bool await_hold(std::chrono::milliseconds patience);
  /// Says that others of the generation do not answer: a process may stand still without having ended.
  void complain(const std::string& reason) const;
  /// Says that this process has let go of its generation, and waits for the next one's variables. Nothing where there
  /// is none: the agent is gone.
  [[nodiscard]] std::optional<Variables> next_generation();
  /// The same for a process that has not been in one (ROLLCALL_STANDBY).
  [[nodiscard]] std::optional<Variables> first_generation();

 private:
  explicit AgentLink(int descriptor) : descriptor_(descriptor) {}
  void listen(std::chrono::milliseconds patience);
  [[nodiscard]] std::optional<Variables> await_begin();

  const int descriptor_;
  std::mutex mutex_;              ///< of what follows
  std::uint32_t generation_ = 0;  ///< generations that began before the present one
  bool hold_ = false;
  bool lost_ = false;
  bool gone_ = false;
  std::optional<Variables> begin_;
};

}  // namespace rollcall::elastic

#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/event_loop.h"

namespace rollcall::elastic {

using rendezvous::EventLoop;

class CoordinatorLink;
class LocalWorkers;
class Member;
struct LaunchRequest;

/// Answers `rollcall run --status` on a socket in the abstract namespace of unix(7), which is named after the user and
/// this process and leaves no file behind. Only the same user and root get an answer. Not movable, because the loop
/// refers to it.
class StatusServer {
 public:
  using Answer = std::function<std::string()>;
  /// Where no socket can be created, --status does not find this run, and the run continues.
  StatusServer(EventLoop& loop, Answer answer);
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;
  ~StatusServer();

 private:
  void serve() const;

  EventLoop& loop_;
  Answer answer_;
  int descriptor_ = -1;
};

/// Returns an agent's answer: its run as one JSON object.
[[nodiscard]] std::string run_status(const LaunchRequest& request, const Member& member,
                                     const CoordinatorLink& coordinator_link, const LocalWorkers& workers);

struct Answers {
  std::vector<std::string> texts{};  ///< in any order
  std::size_t silent = 0;            ///< number of agents that did not answer within that second
};

/// Asks all agents of this user on this host, all at once and for a second at most.
[[nodiscard]] Answers ask_agents();

/// Returns the answers as text for the user.
[[nodiscard]] std::string status_text(const Answers& answers);
/// Returns the answers as one JSON array.
[[nodiscard]] std::string status_json(const Answers& answers);

}  // namespace rollcall::elastic

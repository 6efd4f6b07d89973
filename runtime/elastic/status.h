#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/base/result.h"
#include "runtime/rendezvous/event_loop.h"

namespace rollcall::elastic {

using rendezvous::EventLoop;

class Coordination;
class LocalWorkers;
class Member;
struct LaunchRequest;

/// Answers `rollcall run --status`: a socket in the abstract namespace of unix(7), named after the user and this
/// process, which leaves nothing behind. Only the same user and root get an answer. Not movable: the loop knows it.
class StatusServer {
 public:
  using Answer = std::function<std::string()>;
  /// Where no socket can be made, nobody can ask: the run goes on.
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

/// What an agent answers: its run as one JSON object.
[[nodiscard]] std::string run_status(const LaunchRequest& request, const Member& member,
                                     const Coordination& coordination, const LocalWorkers& workers);

/// What all agents of this user on this host answer, in no order. One that does not within a second is left out.
[[nodiscard]] std::vector<std::string> ask_agents();

/// The answers for people.
[[nodiscard]] std::string status_text(const std::vector<std::string>& answers);
/// The answers as one JSON array.
[[nodiscard]] std::string status_json(const std::vector<std::string>& answers);

}  // namespace rollcall::elastic

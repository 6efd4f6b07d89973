#include "runtime/elastic/status.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

#include "runtime/base/file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/base/untrusted_json.h"
#include "runtime/elastic/coordinator_link.h"
#include "runtime/elastic/local_workers.h"
#include "runtime/elastic/member.h"
#include "runtime/elastic/worker_plan.h"
#include "runtime/rendezvous/world_key.h"

namespace rollcall::elastic {
namespace {

using nlohmann::json;

std::string name_beginning() { return fmt::format("rollcall-run/{}/", getuid()); }

/// Returns an abstract address: a NUL, then the name.
sockaddr_un abstract_address(const std::string& name, socklen_t& length) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof address.sun_path - 1);
  std::memcpy(address.sun_path + 1, name.data(), size);
  length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return address;
}

bool is_ours(int descriptor) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         (peer.uid == getuid() || peer.uid == 0);
}

constexpr std::size_t kLongestAnswer = std::size_t{1} << 20;
constexpr std::chrono::seconds kAnswerTime{1};

/// What one agent is asked, and what it has said so far.
struct Question {
  std::string name;
  File connection{};  ///< none until the agent's queue has a place
  std::string answer{};
  bool ended = false;  ///< the agent has said everything, or nobody of this user listens
};

/// Connects. Another user may listen under such a name without accepting, so this does not wait.
void connect_to_agent(Question& question) {
  File connection(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!connection) {
    return;  // a later try may have a descriptor
  }
  socklen_t length = 0;
  const sockaddr_un address = abstract_address(question.name, length);
  const bool connected = connect(connection.descriptor(), reinterpret_cast<const sockaddr*>(&address), length) == 0;
  const bool full = !connected && errno == EAGAIN;
  question.ended = !full && (!connected || !is_ours(connection.descriptor()));
  if (connected) {
    question.connection = std::move(connection);
  }
}

/// Does what is possible without waiting.
void go_on(Question& question) {
  if (!question.connection && !question.ended) {
    connect_to_agent(question);
  }
  std::array<char, 4096> piece{};
  ssize_t count = 1;
  while (question.connection && !question.ended && count > 0) {
    count = read(question.connection.descriptor(), piece.data(), piece.size());
    question.answer.append(piece.data(), static_cast<std::size_t>(std::max<ssize_t>(0, count)));
    const bool waits = count < 0 && (errno == EAGAIN || errno == EINTR);
    const bool may_say_more = count > 0 ? question.answer.size() < kLongestAnswer : waits;
    question.ended = !may_say_more;
  }
  if (question.ended) {
    question.connection = File();  // so that names which another user has taken use up no descriptors
  }
}

/// Returns the names of this user's agents, which another user may have taken as well.
std::vector<std::string> names_of_agents() {
  std::vector<std::string> names;
  std::ifstream table("/proc/net/unix");
  const std::string beginning = "@" + name_beginning();
  for (std::string line; std::getline(table, line);) {
    const std::size_t at = line.find(beginning);
    const bool listens = line.find(" 00010000 ") != std::string::npos;  // excludes connections
    if (at != std::string::npos && listens) {
      names.push_back(line.substr(at + 1));
    }
  }
  return names;
}

std::string shown_seconds(double seconds) {
  return seconds < 120    ? fmt::format("{:.0f} s", seconds)
         : seconds < 7200 ? fmt::format("{:.0f} min", seconds / 60)
                          : fmt::format("{:.1f} h", seconds / 3600);
}

/// Returns a text that may contain data of other nodes.
std::string text_in(const json& from, const char* name) { return printable(from.at(name).get<std::string>()); }

void describe_run(const json& run, std::string& text) {
  const json& generation = run.at("generation");
  const auto end = std::back_inserter(text);
  fmt::format_to(end, "run {} (agent {} on {}, {}): {}", text_in(run, "run_id"), run.at("pid").get<int>(),
                 text_in(run, "host"), run.at("coordinator").get<bool>() ? "coordinator" : "member",
                 text_in(run, "state"));
  if (generation.at("number") != 0) {
    fmt::format_to(end, ", generation {} for {}, {}", generation.at("number").get<int>(),
                   shown_seconds(generation.at("seconds")), counted(generation.at("restarts").get<int>(), "restart"));
  }
  text += '\n';
  int rank = 0;
  for (const json& node : generation.at("nodes")) {
    fmt::format_to(end, "  node {}: {}, {}\n", rank++, text_in(node, "host"),
                   counted(node.at("workers").get<int>(), "worker"));
  }
  for (const json& node : run.at("spares")) {
    fmt::format_to(end, "  waiting: {}\n", text_in(node, "host"));
  }
  for (const json& ended : run.at("history")) {
    fmt::format_to(end, "  generation {} ended {} ago: {}\n", ended.at("generation").get<int>(),
                   shown_seconds(ended.at("seconds_ago")), text_in(ended, "reason"));
  }
}

double seconds_since(Clock::time_point moment) { return std::chrono::duration<double>(Clock::now() - moment).count(); }

json nodes_json(const std::vector<Node>& nodes) {
  json all = json::array();
  for (const Node& node : nodes) {
    all.push_back({{"host", node.host}, {"address", node.address}, {"workers", node.workers}, {"role", node.role}});
  }
  return all;
}

/// Indexed by Member::State.
constexpr std::array kStates{"waiting", "running", "stopping", "done", "left"};

}  // namespace

StatusServer::StatusServer(EventLoop& loop, Answer answer) : loop_(loop), answer_(std::move(answer)) {
  descriptor_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t length = 0;
  // A guessable name could be taken by another user.
  const std::string name = fmt::format("{}{}-{}", name_beginning(), getpid(), rendezvous::new_nonce());
  const sockaddr_un address = abstract_address(name, length);
  constexpr int kBacklog = 256;  // the last is soon served
  if (bind(descriptor_, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      listen(descriptor_, kBacklog) == 0) {
    loop_.watch(descriptor_, [this] { serve(); });
  }
}

StatusServer::~StatusServer() {
  loop_.forget(descriptor_);
  close(descriptor_);
}

void StatusServer::serve() const {
  constexpr int kMostInATurn = 64;  // then the agent goes on, also when strangers come all the time
  for (int turn = 0; turn < kMostInATurn; ++turn) {
    const int asking = accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (asking < 0) {
      return;
    }
    if (is_ours(asking)) {
      const std::string text = answer_();  // fits into the socket's buffer or is cut; a client never delays the agent
      (void)send(asking, text.data(), text.size(), MSG_NOSIGNAL);
    }
    close(asking);
  }
}

std::string run_status(const LaunchRequest& request, const Member& member, const CoordinatorLink& coordinator_link,
                       const LocalWorkers& workers) {
  const Generation& generation = member.generation();
  json run{{"run_id", request.meeting.run_id},
           {"host", this_host_name()},
           {"pid", getpid()},
           {"coordinator", coordinator_link.coordinator() != nullptr},
           {"rendezvous", coordinator_link.where()},
           {"state", kStates.at(static_cast<std::size_t>(member.state()))},
           {"min_nodes", request.min_nodes},
           {"max_nodes", request.max_nodes},
           {"workers", json::array()},
           {"standby", nullptr},
           {"spares", json::array()},
           {"history", json::array()}};
  run["generation"] = {{"number", generation.number},
                       {"restarts", generation.restarts},
                       {"group_rank", generation.group_rank},
                       {"nodes", nodes_json(generation.world)},
                       {"address", generation.address},
                       {"port", generation.port},
                       {"seconds", generation.number == 0 ? 0.0 : seconds_since(workers.began())}};
  const std::vector<pid_t> pids = workers.pids();
  for (std::uint32_t rank = 0; rank < pids.size(); ++rank) {
    const std::uint32_t first = placement_of(generation.world, generation.group_rank).first_rank;
    run["workers"].push_back({{"local_rank", rank}, {"rank", first + rank}, {"pid", pids[rank]}});
  }
  if (const std::optional<pid_t> standby = workers.standby()) {
    run["standby"] = *standby;
  }
  if (const Coordinator* const coordinator = coordinator_link.coordinator()) {
    run["generation"]["confirmed"] = coordinator->confirmed();
    run["spares"] = nodes_json(coordinator->spares());
    for (const EndedGeneration& ended : coordinator->history()) {
      run["history"].push_back(
          {{"generation", ended.number}, {"reason", ended.reason}, {"seconds_ago", seconds_since(ended.at)}});
    }
  }
  return run.dump(-1, ' ', false, json::error_handler_t::replace);
}

Answers ask_agents() {
  std::vector<Question> questions;
  for (std::string& name : names_of_agents()) {
    questions.push_back({.name = std::move(name)});
  }
  constexpr std::chrono::microseconds kPause{200};
  const auto all_ended = [&] {
    std::ranges::for_each(questions, go_on);
    return std::ranges::all_of(questions, &Question::ended);
  };
  for (const Clock::time_point until = Clock::now() + kAnswerTime; !all_ended() && Clock::now() < until;) {
    std::this_thread::sleep_for(kPause);
  }
  Answers answers;
  for (Question& question : questions) {
    if (parse_untrusted(question.answer)) {
      answers.texts.push_back(std::move(question.answer));
    } else if (!question.ended || !question.answer.empty()) {
      ++answers.silent;
    }
  }
  return answers;
}

std::string status_text(const Answers& answers) {
  std::string text;
  for (const std::string& answer : answers.texts) {
    try {
      describe_run(parse_untrusted(answer).value_or(json()), text);
    } catch (const json::exception&) {
      text += "an agent of another version of rollcall\n";
    }
  }
  if (answers.silent > 0) {
    fmt::format_to(std::back_inserter(text),
                   "{} did not answer within {} s, stopped or asked by too many others; try asking again\n",
                   counted(answers.silent, "agent", "agents"), kAnswerTime.count());
  }
  return text.empty() ? "you have no run on this host\n" : text;
}

std::string status_json(const Answers& answers) {
  json all = json::array();
  for (const std::string& answer : answers.texts) {
    all.push_back(parse_untrusted(answer).value_or(json()));
  }
  return all.dump(-1, ' ', true) + "\n";  // as ASCII without control characters, safe on a terminal
}

}  // namespace rollcall::elastic

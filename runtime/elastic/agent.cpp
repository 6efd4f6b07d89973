#include "runtime/elastic/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/failure.h"
#include "runtime/elastic/worker_plan.h"
#include "runtime/elastic/worker_secret.h"

namespace rollcall::elastic {
namespace {

constexpr std::size_t kLongestErrorFile = 1 << 20;
constexpr int kSignalNumberBase = 128;

/// When the file was written, on the steady clock; nothing where there is none.
std::optional<Clock::time_point> written_at(const std::string& path) {
  struct stat status {};
  if (path.empty() || ::stat(path.c_str(), &status) != 0 || status.st_size == 0) {
    return std::nullopt;
  }
  const auto since_1970 =
      std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
  const auto age = std::chrono::system_clock::now().time_since_epoch() - since_1970;
  return Clock::now() - std::chrono::duration_cast<Clock::duration>(age);
}

/// Python as torchrun's users expect it: the one of PATH, where a virtual environment stands first.
std::string find_python(const std::string& search_path) {
  for (const char* const name : {"python", "python3"}) {
    if (std::string path = find_program(name, search_path); !path.empty()) {
      return path;
    }
  }
  return "";
}

}  // namespace

Agent::Agent(LaunchRequest request, Environment environment, Tell tell)
    : request_(std::move(request)),
      environment_(std::move(environment)),
      tell_([tell = std::move(tell)](const std::string& line) { tell(printable(line)); }) {
  for (const std::string_view of_an_agent_above : {env::kAgentLink, env::kStandby}) {
    environment_.unset(of_an_agent_above);
  }
  keep_from_workers(environment_);
}

Agent::~Agent() {
  if (secret_ >= 0) {
    close(secret_);
  }
}

Result<void> Agent::prepare() {
  const std::string search_path = environment_.get(env::kPath).value_or("/usr/local/bin:/usr/bin:/bin");
  std::string& name = request_.program.front();
  const bool any_python = name.empty();
  const std::string found = any_python ? find_python(search_path) : find_program(name, search_path);
  if (found.empty()) {
    return fail("run", any_python ? "python" : name,
                any_python ? "is not in PATH, nor is python3" : "is no program that can be executed",
                any_python ? "activating the environment with your Python, or PYTHON_EXEC" : "its full path",
                ErrorKind::NotFound);
  }
  name = any_python ? found : name;
  Result<LogFolders> folders =
      LogFolders::create(request_.logs, request_.meeting.run_id, environment_.get_non_empty("TMPDIR").value_or("/tmp"));
  if (folders) {
    folders_.emplace(*std::move(folders));
  } else if (!request_.logs.folder.empty() || request_.logs.redirects.any() || request_.logs.tee.any()) {
    return folders.error();
  }
  const bool one_of_many = parse_integer<std::uint32_t>(environment_.get(env::kSlurmProcId).value_or("0")) > 1U;
  Result<Met> met = meet_agents(loop_, request_, [this, one_of_many](const std::string& line) {
    if (!one_of_many || coordination_ != nullptr) {  // what they wait for is the same
      tell_(line);
    }
  });
  if (!met) {
    return met.error();
  }
  coordination_ = std::move(met->coordination);
  first_signal_.number = met->signal;
  if (coordination_ != nullptr && coordination_->coordinator() == nullptr) {
    ASSIGN_OR_RETURN(rendezvous::Listener listener, rendezvous::Listener::on_all_addresses(0));
    listener_.emplace(std::move(listener));
  }
  return {};
}

Newcomer Agent::newcomer(const std::optional<Generation>& last) const {
  const std::string& given = request_.meeting.local_address;
  Node node{this_host_name(), given.empty() ? coordination_->own_address() : given, request_.workers, request_.role};
  node.port = listener_ ? listener_->port() : request_.meeting.endpoint.port;
  if (last && last->group_rank < last->world.size()) {
    node = last->world[last->group_rank];  // as the others know it
  }
  return {
      request_.meeting.run_id,           request_.min_nodes, request_.max_nodes, request_.meeting.node_rank, node, last,
      request_.meeting.heartbeat_timeout};
}

/// To the successor of a lost coordinator, which may be this agent.
void Agent::turn(const Action& action) {
  if (action.kind == Action::Kind::Host) {
    coordination_ = take_the_place(loop_, request_, *std::move(listener_), action.generation, tell_);
    listener_.reset();
    tell_(fmt::format("rollcall: run: {}, which held the rendezvous, is not heard: looks for the others at {}",
                      action.generation.world[action.generation.coordinator].host, coordination_->where()));
  } else {
    Result<std::unique_ptr<Coordination>> turned = turn_to(loop_, request_, action.successor);
    if (!turned) {
      member_.coordinator_lost(turned.error().reason, /*silent=*/false);
      return;
    }
    coordination_ = *std::move(turned);
  }
  report({.kind = Report::Kind::Join, .newcomer = newcomer(action.generation)});
}

Result<RunEnd> Agent::run() {
  raise_own_open_files_limit();
  if (!loop_.problem().empty()) {
    return fail("run", "", "cannot wait for events: " + loop_.problem(), "a higher hard limit (ulimit -Hn)",
                ErrorKind::Unavailable);
  }
  std::vector<int> signals = request_.signals;
  signals.insert(signals.end(), {SIGCHLD, SIGUSR1, SIGUSR2});
  loop_.handle_signals(signals);
  RETURN_IF_ERROR(prepare());
  if (coordination_ == nullptr) {
    return ended_by(first_signal_.number, kSignalNumberBase + first_signal_.number);
  }
  std::signal(SIGPIPE, SIG_IGN);  // a terminal or `| head` that is gone does not end the run; workers get the default
  status_.emplace(loop_, [this] { return status(); });
  if (coordination_->coordinator() != nullptr && request_.max_nodes > 1) {
    tell_(fmt::format("rollcall: run: waits for {} to {} nodes at {}", request_.min_nodes, request_.max_nodes,
                      rendezvous::to_text(request_.meeting.endpoint)));
  }
  report({.kind = Report::Kind::Join, .newcomer = newcomer(std::nullopt)});
  perform();
  while (!outcome_) {
    loop_once();
  }
  end_survivors();
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(2);
  while (!coordination_->finished() && Clock::now() < patience) {
    loop_.wait(patience);
  }
  hand_error_file_up(*outcome_);
  RunEnd end = end_of(*outcome_);
  end.message = printable(std::move(end.message));  // other nodes' words are in it
  return end;
}

void Agent::loop_once() {
  std::optional<Clock::time_point> until = coordination_->next_tick();
  for (const auto& next : {group_ ? group_->next_tick() : std::nullopt, standby_due()}) {
    until = next ? std::min(until.value_or(*next), *next) : until;
  }
  const std::vector<int> signals = loop_.wait(until);
  for (const int signal : signals) {
    on_signal(signal);
  }
  coordination_->tick(Clock::now());
  if (group_) {
    group_->tick(Clock::now());
  }
  hear_complaints();
  keep_standby();
  if (const std::optional<Gone> gone = coordination_->gone()) {
    for (const Order& last : coordination_->take_orders()) {
      member_.ordered(last);  // perhaps it said why
    }
    gone->refused ? member_.coordinator_refused(gone->reason) : member_.coordinator_lost(gone->reason, gone->silent);
  }
  perform();
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) {
    reap();
  } else if (std::ranges::find(request_.signals, signal) == request_.signals.end()) {
    if (group_) {
      group_->forward(signal);
    }
    for (const Survivor& survivor : survivors_) {
      if (survivor.link) {
        ::kill(-survivor.pid, signal);
      }
    }
  } else if (!member_.interrupted()) {
    first_signal_ = {signal, Clock::now()};
    member_.interrupted(signal);
  } else if (group_ && asks_again(signal)) {
    group_->stop(SIGKILL, std::chrono::seconds(0), Clock::now());
  }
}

/// Whether somebody lost patience. TERM and HUP at once, as systemd sends them, are one request.
bool Agent::asks_again(int signal) const {
  return signal == first_signal_.number || Clock::now() - first_signal_.arrived >= std::chrono::seconds(1);
}

bool Agent::is_cause(const EndedWorker& ended) const {
  if (ended.exit_code == 0 && ended.signal == 0) {
    return false;
  }
  if (!ended.after_stop) {
    return true;
  }
  const auto written = written_at(error_files_.at(ended.local_rank));
  const bool by_itself = ended.signal == SIGSEGV || ended.signal == SIGBUS || ended.signal == SIGILL ||
                         ended.signal == SIGFPE || (ended.signal == SIGKILL && !ended.after_kill);
  return by_itself || (written && *written < stopped_at_);
}

void Agent::reap() {
  std::erase_if(discarded_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
  if (!group_) {
    return;
  }
  for (const EndedWorker& ended : group_->newly_ended()) {
    if (is_cause(ended)) {
      member_.worker_failed(cause_of(ended));
    }
  }
}

/// Some process of the generation stands still, here or elsewhere, and no agent has noticed: none has ended. The
/// generation ends as if this worker had failed; what still stands still then is ended with it.
void Agent::hear_complaints() {
  if (const auto complaint = group_ ? group_->take_complaint() : std::nullopt) {
    Cause cause = cause_at(complaint->local_rank, complaint->pid);
    cause.exit_code = to_int(ExitCode::Unavailable);
    cause.message = complaint->reason.substr(0, kLongestMessage);
    member_.worker_failed(cause);
  }
}

/// Of a worker of this generation.
Cause Agent::cause_at(std::uint32_t local_rank, pid_t pid) const {
  const Placement place = place_of(member_.generation().world, member_.generation().group_rank);
  return {.host = this_host_name(),
          .group_rank = place.group_rank,
          .rank = place.first_rank + local_rank,
          .local_rank = local_rank,
          .pid = pid};
}

Cause Agent::cause_of(const EndedWorker& ended) const {
  Cause cause = cause_at(ended.local_rank, ended.pid);
  cause.kind = ended.signal > 0 ? Cause::Kind::Killed : Cause::Kind::Failed;
  cause.exit_code = ended.signal > 0 ? kSignalNumberBase + ended.signal : ended.exit_code;
  cause.signal = ended.signal;
  Clock::time_point happened = ended.seen;
  const std::string& file = error_files_.at(ended.local_rank);
  std::string content;
  if (const auto written = written_at(file);
      written && read_small_file(file, kLongestErrorFile, content).reason.empty()) {
    if (const std::optional<std::string> message = error_file_message(content)) {
      cause.kind = ended.signal > 0 ? cause.kind : Cause::Kind::Exception;
      cause.message = message->substr(0, kLongestMessage);
      cause.error_file = file;
      happened = std::min(happened, *written);
    }
  }
  cause.age_nanoseconds = std::chrono::nanoseconds(Clock::now() - happened).count();
  return cause;
}

void Agent::perform() {
  while (true) {
    if (group_ && group_->over()) {
      finish_group();
    }
    for (const Order& order : coordination_->take_orders()) {
      announce_waiting(order);
      member_.ordered(order);
    }
    const std::vector<Action> actions = member_.take_actions();
    if (actions.empty()) {
      return;
    }
    for (const Action& action : actions) {
      perform(action);
    }
  }
}

void Agent::perform(const Action& action) {
  switch (action.kind) {
    case Action::Kind::Start:
      start(action.generation);
      break;
    case Action::Kind::Stop:
      stopped_at_ = Clock::now();
      if (group_) {
        group_->stop(action.signal, request_.shutdown_timeout, stopped_at_, action.keep, action.lost);
        group_->tick(stopped_at_);
      }
      break;
    case Action::Kind::TellOfLoss:
      if (group_) {
        group_->tell_of_loss();
      }
      break;
    case Action::Kind::Send:
      report(action.report);
      break;
    case Action::Kind::Turn:
    case Action::Kind::Host:
      turn(action);
      break;
    case Action::Kind::Exit:
      outcome_ = action.outcome;
      break;
  }
}

void Agent::report(Report report) {
  if (report.kind == Report::Kind::Join || report.kind == Report::Kind::Stopped) {
    if (request_.meeting.workers_endpoint) {
      report.port = request_.meeting.workers_endpoint->port;
    } else if (Result<PortReservation> port = PortReservation::make()) {
      port_ = *std::move(port);
      report.port = port_.port();
    }
  }
  coordination_->report(report);
}

void Agent::finish_group() {
  std::vector<Cause> causes;
  for (const EndedWorker& ended : group_->ended()) {
    if (is_cause(ended)) {
      causes.push_back(cause_of(ended));
    }
  }
  if (set_up_failure_) {
    causes.push_back(*set_up_failure_);
  }
  if (group_->gave_up()) {
    tell_(fmt::format("rollcall: warning: {}: workers that KILL does not end are left behind (waiting for a device?)",
                      this_host_name()));
  }
  survivors_ = group_->take_survivors();
  if (std::ranges::all_of(survivors_, [](const Survivor& one) { return one.link == nullptr; })) {
    pump_->ask_to_finish();
  }
  std::erase_if(old_pumps_, [](const auto& pump) { return pump->finished(); });
  old_pumps_.push_back(std::move(pump_));
  last_ended_ = group_->ended();
  group_.reset();
  member_.workers_ended(std::move(causes));
}

}  // namespace rollcall::elastic

#include "runtime/elastic/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/owned_file.h"
#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/failure.h"
#include "runtime/elastic/process.h"
#include "runtime/elastic/worker_plan.h"
#include "runtime/elastic/worker_secret.h"

namespace rollcall::elastic {
namespace {

/// Returns the program to execute. With an empty `name`, that is Python as torchrun finds it: the first in PATH, which
/// an active virtual environment precedes.
Result<std::string> path_of_program(const std::string& name, const Environment& environment) {
  const std::string search_path = environment.get(env::kPath).value_or("/usr/local/bin:/usr/bin:/bin");
  const bool any_python = name.empty();
  for (const std::string& each : any_python ? std::vector<std::string>{"python", "python3"} : std::vector{name}) {
    if (std::string path = find_program(each, search_path); !path.empty()) {
      return any_python ? path : name;
    }
  }
  if (const std::string path = any_python ? "" : find_not_executable(name, search_path); !path.empty()) {
    return fail("run", path, "cannot be executed", "checking its permissions", ErrorKind::NotExecutable);
  }
  return fail(
      "run", any_python ? "python" : name,
      any_python ? "neither python nor python3 is in PATH" : "is not an executable program",
      any_python ? "activating the environment with your Python, or setting PYTHON_EXEC" : "giving its full path",
      ErrorKind::NotFound);
}

/// Returns the exit code of a run that a signal ended: 0 where all workers succeeded, otherwise the highest of the
/// workers' exit codes, otherwise `otherwise`.
int exit_code_of(const std::vector<EndedWorker>& workers, int otherwise) {
  bool all_well = !workers.empty();
  int highest = 0;
  for (const EndedWorker& ended : workers) {
    all_well = all_well && ended.exit_code == 0 && ended.signal == 0;
    highest = std::max(highest, ended.exit_code);
  }
  return all_well ? 0 : highest > 0 ? highest : otherwise;
}

/// Copies the error file of the first failed worker to the file that this agent's parent asked for.
void hand_error_file_up(const Outcome& outcome, const std::vector<EndedWorker>& workers,
                        const Environment& environment) {
  const auto own = environment.get_non_empty("TORCHELASTIC_ERROR_FILE");
  std::string content;
  // The coordinator names the file; only a file that belongs to a worker of this agent is read.
  const bool own_workers =
      outcome.cause && !outcome.cause->error_file.empty() &&
      std::ranges::find(workers, outcome.cause->error_file, &EndedWorker::error_file) != workers.end();
  if (!own || !own_workers || !read_small_file(outcome.cause->error_file, kLongestErrorFile, content).reason.empty()) {
    return;
  }
  const int code = outcome.cause->signal > 0 ? -outcome.cause->signal : outcome.cause->exit_code;
  const std::string text = with_error_code(content, code);
  const File file(open_output(*own, O_WRONLY).descriptor);
  if (file && ftruncate(file.descriptor(), 0) == 0) {
    (void)write_all(file.descriptor(), text);
  }
}

}  // namespace

Agent::Agent(LaunchRequest request, Environment environment, PrintLine print_line)
    : request_(std::move(request)),
      environment_(std::move(environment)),
      print_line_([print_line = std::move(print_line)](const std::string& line) { print_line(printable(line)); }),
      workers_(request_, environment_, loop_, member_, print_line_) {
  for (const std::string_view of_an_agent_above : {env::kAgentLink, env::kStandby}) {
    environment_.unset(of_an_agent_above);
  }
  keep_from_workers(environment_);
}

Result<RunEnd> Agent::run() {
  raise_own_open_files_limit();
  if (!loop_.problem().empty()) {
    return fail("run", "", "cannot wait for events: " + loop_.problem(),
                "raising the hard limit of open files (ulimit -Hn)", ErrorKind::Unavailable);
  }
  std::vector<int> signals = request_.signals;
  signals.insert(signals.end(), {SIGCHLD, SIGUSR1, SIGUSR2});
  loop_.handle_signals(signals);
  ASSIGN_OR_RETURN(request_.program.front(), path_of_program(request_.program.front(), environment_));
  RETURN_IF_ERROR(workers_.make_folders());
  RETURN_IF_ERROR(meet());
  if (coordinator_link_ == nullptr) {
    return ended_by(first_signal_.number, kSignalExitCode + first_signal_.number);
  }
  std::signal(SIGPIPE, SIG_IGN);  // a closed terminal or `| head` does not end the run; workers get the default action
  status_.emplace(loop_, [this] { return run_status(request_, member_, *coordinator_link_, workers_); });
  if (coordinator_link_->coordinator() != nullptr && request_.max_nodes > 1) {
    const std::string least = request_.min_nodes < request_.max_nodes ? fmt::format("{} to ", request_.min_nodes) : "";
    print_line_(fmt::format("rollcall: run: waiting for {}{} nodes at {}", least, request_.max_nodes,
                            rendezvous::to_text(request_.meeting.endpoint)));
  }
  report({.kind = Report::Kind::Join, .join_request = join_request(std::nullopt)});
  perform();
  while (!outcome_) {
    loop_once();
  }
  last_logs_ = workers_.end();
  const Clock::time_point patience = Clock::now() + std::chrono::seconds(2);
  while (!coordinator_link_->finished() && Clock::now() < patience) {
    loop_.wait(patience);
  }
  hand_error_file_up(*outcome_, workers_.last_ended(), environment_);
  RunEnd end = end_of(*outcome_);
  end.message = printable(std::move(end.message));  // it contains text from other nodes
  return end;
}

Result<void> Agent::meet() {
  const bool one_of_many = parse_integer<std::uint32_t>(environment_.get(env::kSlurmProcId).value_or("0")) > 1U;
  ASSIGN_OR_RETURN(MeetingResult met, meet_agents(loop_, request_, [this, one_of_many](const std::string& line) {
                     if (!one_of_many || coordinator_link_ != nullptr) {  // all tasks wait for the same
                       print_line_(line);
                     }
                   }));
  coordinator_link_ = std::move(met.coordinator_link);
  first_signal_.number = met.signal;
  if (coordinator_link_ != nullptr && coordinator_link_->coordinator() == nullptr) {
    ASSIGN_OR_RETURN(rendezvous::Listener listener, rendezvous::Listener::on_all_addresses(0));
    listener_.emplace(std::move(listener));
  }
  return {};
}

JoinRequest Agent::join_request(const std::optional<Generation>& last) const {
  const std::string& given = request_.meeting.local_address;
  Node node{this_host_name(), given.empty() ? coordinator_link_->own_address() : given, request_.workers,
            request_.role};
  node.port = listener_ ? listener_->port() : request_.meeting.endpoint.port;
  if (last && last->group_rank < last->world.size()) {
    node = last->world[last->group_rank];  // as the other nodes know it
  }
  return {
      request_.meeting.run_id,           request_.min_nodes, request_.max_nodes, request_.meeting.node_rank, node, last,
      request_.meeting.heartbeat_timeout};
}

void Agent::loop_once() {
  std::optional<Clock::time_point> until = coordinator_link_->next_tick();
  if (const auto next = workers_.next_tick()) {
    until = std::min(until.value_or(*next), *next);
  }
  for (const int signal : loop_.wait(until)) {
    on_signal(signal);
  }
  coordinator_link_->tick(Clock::now());
  workers_.tick(Clock::now());
  if (const std::optional<CoordinatorLoss> gone = coordinator_link_->gone()) {
    for (const Order& last : coordinator_link_->take_orders()) {
      member_.ordered(last);  // they may contain the reason
    }
    gone->refused ? member_.coordinator_refused(gone->reason) : member_.coordinator_lost(gone->reason, gone->silent);
  }
  perform();
}

void Agent::on_signal(int signal) {
  if (signal == SIGCHLD) {
    workers_.reap();
  } else if (std::ranges::find(request_.signals, signal) == request_.signals.end()) {
    workers_.forward(signal);
  } else if (!member_.interrupted()) {
    first_signal_ = {signal, Clock::now()};
    member_.interrupted(signal);
  } else if (asks_again(signal)) {
    workers_.kill();
  }
}

/// Returns whether the user asks again to end. TERM and HUP within one second, as systemd sends them, count as one
/// request.
bool Agent::asks_again(int signal) const {
  return signal == first_signal_.number || Clock::now() - first_signal_.arrived >= std::chrono::seconds(1);
}

void Agent::perform() {
  while (true) {
    workers_.finish_if_over();
    for (const Order& order : coordinator_link_->take_orders()) {
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
      announce(action.generation);
      workers_.start();
      break;
    case Action::Kind::Stop:
      workers_.stop(action);
      break;
    case Action::Kind::ReportLoss:
      workers_.report_loss();
      break;
    case Action::Kind::Send:
      report(action.report);
      break;
    case Action::Kind::FailOver:
    case Action::Kind::Promote:
      fail_over(action);
      break;
    case Action::Kind::Exit:
      outcome_ = action.outcome;
      break;
  }
}

/// Connects to the successor of a lost coordinator, or becomes the successor.
void Agent::fail_over(const Action& action) {
  if (action.kind == Action::Kind::Promote) {
    coordinator_link_ = promote(loop_, request_, *std::move(listener_), action.generation, print_line_);
    listener_.reset();
    print_line_(
        fmt::format("rollcall: run: the coordinator on {} does not respond; this agent replaces it and waits for the "
                    "other nodes at {}",
                    action.generation.world[action.generation.coordinator].host, coordinator_link_->where()));
  } else {
    Result<std::unique_ptr<CoordinatorLink>> connected = fail_over_to(loop_, request_, action.successor);
    if (!connected) {
      member_.coordinator_lost(connected.error().reason, /*silent=*/false);
      return;
    }
    coordinator_link_ = *std::move(connected);
  }
  report({.kind = Report::Kind::Join, .join_request = join_request(action.generation)});
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
  coordinator_link_->report(report);
}

void Agent::announce(const Generation& generation) {
  if ((generation.number == 1 && generation.world.size() == 1) || coordinator_link_->coordinator() == nullptr) {
    return;
  }
  const auto& history = coordinator_link_->coordinator()->history();
  const std::uint32_t workers = placement_of(generation.world, generation.group_rank).world_size;
  print_line_(fmt::format("rollcall: run: generation {}: {} on {}{}", generation.number, counted(workers, "worker"),
                          counted(generation.world.size(), "node"),
                          history.empty() ? "" : ", because " + history.back().reason));
}

/// Reports why nothing happens on an agent that joins when the run has all its nodes, such as a second job at the
/// endpoint of the first.
void Agent::announce_waiting(const Order& order) {
  const bool full = order.kind == Order::Kind::Wait && order.generation.world.size() >= request_.max_nodes;
  if (full && !was_in_a_generation() && !reported_waiting_) {
    reported_waiting_ = true;
    print_line_(
        fmt::format("rollcall: run: the run at {} already has all {} nodes; {} waits as a spare until a node leaves",
                    coordinator_link_->where(), request_.max_nodes, this_host_name()));
  }
}

/// Returns whether this agent reports what all agents know: in a Slurm step, only the coordinator does.
bool Agent::reports_result() const {
  const bool under_slurm = environment_.get_non_empty(env::kSlurmProcId).has_value();
  return !under_slurm || (coordinator_link_ != nullptr && coordinator_link_->coordinator() != nullptr);
}

RunEnd Agent::ended_by(int signal, int exit_code) const {
  const bool reports = exit_code != 0 && reports_result();
  return {exit_code, reports ? "rollcall: run: ended by signal " + signal_text(signal) : ""};
}

RunEnd Agent::end_of(const Outcome& outcome) const {
  if (member_.interrupted()) {
    return ended_by(outcome.exit_code - kSignalExitCode, exit_code_of(workers_.last_ended(), outcome.exit_code));
  }
  if (outcome.exit_code == 0 && !was_in_a_generation()) {
    // A task of a step with several nodes is meant to be a spare, and must not fail its step.
    const bool is_spare = parse_integer<std::uint32_t>(environment_.get(env::kSlurmStepNodes).value_or("")) > 1U;
    return {is_spare ? 0 : to_int(ExitCode::NotAdmitted),
            fmt::format("rollcall: run: the run at {} succeeded without {}, which ran no workers; try giving another "
                        "--rdzv-endpoint to start a separate run",
                        coordinator_link_->where(), this_host_name())};
  }
  if (outcome.exit_code == 0 || (!reports_result() && !outcome.own)) {
    return {outcome.exit_code, ""};
  }
  if (!outcome.cause) {
    return {outcome.exit_code, fmt::format("rollcall: run: {}; try reading the messages of the other agents{}",
                                           outcome.reason, outcome.own ? ", or giving another --rdzv-endpoint" : "")};
  }
  const std::string& file = outcome.cause->error_file;
  const bool kept = !file.empty() && !request_.logs.folder.empty();
  const std::string after = outcome.reason.empty() ? "" : " (" + outcome.reason + ")";
  if (outcome.cause->kind == Cause::Kind::SetUp) {  // it wrote nothing, and the description contains an action
    return {outcome.exit_code, fmt::format("rollcall: run: {}{}", describe(*outcome.cause), after)};
  }
  return {outcome.exit_code, fmt::format("rollcall: run: {}{}; try reading {}", describe(*outcome.cause), after,
                                         kept ? file : "its output above")};
}

}  // namespace rollcall::elastic

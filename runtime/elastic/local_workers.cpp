#include "runtime/elastic/local_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/failure.h"
#include "runtime/elastic/process.h"
#include "runtime/elastic/worker_plan.h"
#include "runtime/elastic/worker_secret.h"

namespace rollcall::elastic {
namespace {

/// Returns when the file was written, on the steady clock; unset where it is missing or empty.
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

/// Returns whether this end may be a cause of others: it was not the effect of this agent's stop.
bool is_cause(const EndedWorker& ended) {
  if (ended.exit_code == 0 && ended.signal == 0) {
    return false;
  }
  if (!ended.stopped) {
    return true;
  }
  const auto written = written_at(ended.error_file);
  const bool by_itself = ended.signal == SIGSEGV || ended.signal == SIGBUS || ended.signal == SIGILL ||
                         ended.signal == SIGFPE || (ended.signal == SIGKILL && !ended.after_kill);
  return by_itself || (written && *written < *ended.stopped);
}

/// Returns whether one process could replace any of the workers.
bool workers_are_alike(const LaunchRequest& request) {
  bool alike = !request.virtual_local_rank;
  for (std::uint32_t rank = 1; rank < request.workers; ++rank) {
    alike = alike && worker_command(request, rank) == worker_command(request, 0);
  }
  return alike;
}

}  // namespace

Result<void> LocalWorkers::make_folders() {
  Result<LogFolders> folders =
      LogFolders::create(request_.logs, request_.meeting.run_id, environment_.get_non_empty("TMPDIR").value_or("/tmp"));
  if (folders) {
    folders_.emplace(*std::move(folders));
  } else if (!request_.logs.folder.empty() || request_.logs.redirects.any() || request_.logs.tee.any()) {
    return folders.error();
  }
  return {};
}

void LocalWorkers::start() {
  began_ = Clock::now();
  idle_.generation_begins();
  if (!secret_) {
    secret_ = File(worker_secret(request_.meeting.secret, member_.generation().run, environment_));
  }
  const AttemptFiles files = make_files();
  std::vector<std::string> error_files;
  std::ranges::transform(files.workers, std::back_inserter(error_files), &WorkerFiles::error);
  group_ = std::make_unique<WorkerGroup>(std::move(error_files));
  pump_ = std::make_unique<LogPump>([this](const std::string& line) { print_line_("rollcall: warning: " + line); });
  set_up_failure_.reset();
  for (std::uint32_t rank = 0; rank < request_.workers && !set_up_failure_; ++rank) {
    Result<Worker> begun = begin_worker(rank, files);
    begun ? group_->adopt(*std::move(begun)) : fail_set_up(rank, begun.error());
  }
  pump_->start();
  reap();
}

AttemptFiles LocalWorkers::make_files() {
  AttemptFiles none;
  none.workers.resize(request_.workers);
  Result<AttemptFiles> files = folders_ ? folders_->next_attempt(request_.workers) : none;
  if (!files) {  // without logs, as on a full disk, the node continues
    const Error& error = files.error();
    print_line_(fmt::format("rollcall: warning: {}: {}: {}: this attempt writes all output to the terminal",
                            error.setting, error.value, error.reason));
  }
  return files ? *std::move(files) : none;
}

/// Gives the local rank to its survivor or to the standby, or starts a process for it.
Result<Worker> LocalWorkers::begin_worker(std::uint32_t local_rank, const AttemptFiles& files) {
  ASSIGN_OR_RETURN(auto variables, worker_variables(request_, member_.generation(), local_rank,
                                                    files.workers[local_rank].error, environment_));
  if (Worker worker = idle_.take(local_rank); worker.link) {
    worker.link->begin(variables);
    return worker;
  }
  Environment environment = environment_;
  for (const auto& [name, value] : variables) {
    environment.set(name, value);
  }
  ASSIGN_OR_RETURN(const File out, open_stream(local_rank, files, false));
  ASSIGN_OR_RETURN(const File err, open_stream(local_rank, files, true));
  return launch(std::move(environment), local_rank, out, err);
}

/// Returns the file or pipe for the worker's stream; an empty one: the stream is inherited.
Result<File> LocalWorkers::open_stream(std::uint32_t local_rank, const AttemptFiles& files, bool err) {
  const Streams teed = request_.logs.tee.of(local_rank);
  const std::string& file = err ? files.workers[local_rank].err : files.workers[local_rank].out;
  const bool shown = request_.logs.shown.empty() || request_.logs.shown.contains(local_rank);
  if (file.empty() && shown) {
    return File();
  }
  if (file.empty()) {
    File nowhere("/dev/null", O_WRONLY);
    return nowhere ? Result<File>(std::move(nowhere))
                   : fail("--log-dir", "/dev/null", "cannot be opened: " + errno_text(errno), "raising ulimit -n",
                          ErrorKind::CannotCreate);
  }
  const int terminal = err ? STDERR_FILENO : STDOUT_FILENO;
  ASSIGN_OR_RETURN(const int opened,
                   (err ? teed.err : teed.out)
                       ? pump_->add({line_prefix(request_, member_.generation(), local_rank, this_host_name()), file,
                                     shown ? terminal : -1, err ? files.filtered_err : files.filtered_out,
                                     err ? request_.logs.err_filters : request_.logs.out_filters})
                       : open_log(file));
  return File(opened);
}

Result<Worker> LocalWorkers::launch(Environment environment, std::uint32_t local_rank, const File& out,
                                    const File& err) const {
  std::optional<WorkerLink::Made> made = WorkerLink::make(loop_);
  const File link(made ? made->worker_end : -1);
  for (const auto& [name, inherited] : {std::pair(env::kAgentLink, &link), std::pair(env::kSecretFd, &secret_)}) {
    if (*inherited) {
      environment.set(std::string(name), std::to_string(inherited->descriptor()));
    }
  }
  ProcessPlan plan{.command = worker_command(request_, local_rank),
                   .out = out.descriptor(),
                   .err = err.descriptor(),
                   .link = link.descriptor(),
                   .secret = secret_.descriptor()};
  for (const auto& [name, value] : environment.variables()) {
    plan.environment.push_back(std::string(name).append("=").append(value));
  }
  ASSIGN_OR_RETURN(const pid_t pid, start_process(plan));
  if (made) {
    made->link->listen_to(pid);
  }
  return Worker{pid, made ? std::move(made->link) : nullptr};
}

void LocalWorkers::fail_set_up(std::uint32_t local_rank, const Error& error) {
  set_up_failure_ = cause_at(local_rank, 0);
  set_up_failure_->kind = Cause::Kind::SetUp;
  set_up_failure_->exit_code = to_int(error.exit_code());
  set_up_failure_->message = fmt::format("{}{}{}: {}; try {}", error.setting, error.value.empty() ? "" : ": ",
                                         error.value, error.reason, error.action);
  member_.worker_failed(*set_up_failure_);
  for (Worker& survivor : idle_.take_survivors()) {  // they are stopped like the other workers
    group_->adopt(std::move(survivor));
  }
}

void LocalWorkers::stop(const Action& action) {
  const Clock::time_point now = Clock::now();
  group_->stop(action.signal, request_.shutdown_timeout, now, action.keep, action.lost);
  group_->tick(now);
}

void LocalWorkers::kill() { group_->stop(SIGKILL, std::chrono::seconds(0), Clock::now()); }

void LocalWorkers::forward(int signal) const {
  group_->forward(signal);
  idle_.forward(signal);
}

void LocalWorkers::reap() {
  idle_.reap(print_line_);
  for (const EndedWorker& ended : group_->newly_ended()) {
    if (is_cause(ended)) {
      member_.worker_failed(cause_of(ended));
    }
  }
}

void LocalWorkers::tick(Clock::time_point now) {
  group_->tick(now);
  // A process of the generation hangs, here or on another node, and no agent has noticed because it has not ended. The
  // generation ends as if this worker had failed, and hanging processes are killed.
  if (const auto stall = group_->take_stall_report()) {
    Cause cause = cause_at(stall->first, group_->pids()[stall->first]);
    cause.exit_code = to_int(ExitCode::Unavailable);
    cause.message = stall->second.substr(0, kLongestMessage);
    member_.worker_failed(cause);
  }
  if (const auto due = standby_due(); due && now >= *due) {
    start_standby();
  }
}

std::optional<Clock::time_point> LocalWorkers::next_tick() const {
  const auto standby = standby_due();
  const auto group = group_->next_tick();
  return group && standby ? std::min(group, standby) : std::max(group, standby);
}

/// Returns a cause that names a worker of this generation.
Cause LocalWorkers::cause_at(std::uint32_t local_rank, pid_t pid) const {
  const Placement placement = placement_of(member_.generation().world, member_.generation().group_rank);
  return {.host = this_host_name(),
          .group_rank = placement.group_rank,
          .rank = placement.first_rank + local_rank,
          .local_rank = local_rank,
          .pid = pid};
}

Cause LocalWorkers::cause_of(const EndedWorker& ended) const {
  Cause cause = cause_at(ended.local_rank, ended.pid);
  cause.kind = ended.signal > 0 ? Cause::Kind::Killed : Cause::Kind::Failed;
  cause.exit_code = ended.signal > 0 ? kSignalExitCode + ended.signal : ended.exit_code;
  cause.signal = ended.signal;
  Clock::time_point happened = ended.seen;
  std::string content;
  if (const auto written = written_at(ended.error_file);
      written && read_small_file(ended.error_file, kLongestErrorFile, content).reason.empty()) {
    if (const std::optional<std::string> message = error_file_message(content)) {
      cause.kind = ended.signal > 0 ? cause.kind : Cause::Kind::Exception;
      cause.message = message->substr(0, kLongestMessage);
      cause.error_file = ended.error_file;
      happened = std::min(happened, *written);
    }
  }
  cause.age_nanoseconds = std::chrono::nanoseconds(Clock::now() - happened).count();
  return cause;
}

/// Returns when to start the standby: after the generation has run for a while, so that it does not compete for the
/// CPUs with starting workers.
std::optional<Clock::time_point> LocalWorkers::standby_due() const {
  constexpr std::chrono::seconds kSettled{2};
  const bool wanted = idle_.lacks_standby() && group_->any_survives() && member_.state() == Member::State::Running &&
                      workers_are_alike(request_);
  return wanted ? std::optional(began_ + kSettled) : std::nullopt;
}

void LocalWorkers::start_standby() {
  Environment environment = environment_;
  environment.set(std::string(env::kStandby), "1");
  if (auto threads = worker_threads(request_, environment_)) {
    environment.set(std::string(env::kOmpThreads), *std::move(threads));
  }
  const std::string folder = folders_ ? folders_->run_folder().string() : "";
  const bool kept = !folder.empty() && (request_.logs.redirects.any() || request_.logs.tee.any());
  const Result<int> opened = kept ? open_log(folder + "/standby.log") : Result<int>(-1);
  const File log(opened ? *opened : -1);
  idle_.keep_standby(launch(std::move(environment), 0, log, log));
}

void LocalWorkers::finish_if_over() {
  if (!group_->over()) {
    return;
  }
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
    print_line_(
        fmt::format("rollcall: warning: run: {}: some workers did not end after KILL and are left behind, perhaps "
                    "waiting for a device",
                    this_host_name()));
  }
  std::vector<Worker> survivors = group_->take_survivors();
  if (std::ranges::all_of(survivors, [](const Worker& one) { return one.link == nullptr; })) {
    pump_->ask_to_finish();
  }
  idle_.keep(std::move(survivors));
  std::erase_if(old_pumps_, [](const auto& pump) { return pump->finished(); });
  old_pumps_.push_back(std::move(pump_));
  last_ended_ = group_->ended();
  group_ = std::make_unique<WorkerGroup>();
  member_.workers_ended(std::move(causes));
}

/// Ends the survivors with TERM, like workers that never survived a generation.
std::vector<std::unique_ptr<LogPump>> LocalWorkers::end() {
  WorkerGroup last(std::vector<std::string>{});
  if (Worker standby = idle_.take_standby(); standby.pid > 0) {
    ::kill(standby.pid, SIGKILL);  // it has no state to save
    last.adopt(std::move(standby));
  }
  for (Worker& survivor : idle_.take_survivors()) {
    last.adopt(std::move(survivor));
  }
  last.stop(SIGTERM, request_.shutdown_timeout, Clock::now());
  while (true) {
    (void)last.newly_ended();
    last.tick(Clock::now());
    if (last.over()) {
      break;
    }
    const std::vector<int> signals = loop_.wait(last.next_tick());
    if (std::ranges::any_of(signals, [&](int signal) { return std::ranges::count(request_.signals, signal) > 0; })) {
      last.stop(SIGKILL, std::chrono::seconds(0), Clock::now());
    }
  }
  for (const std::unique_ptr<LogPump>& pump : old_pumps_) {
    pump->ask_to_finish();
  }
  return std::move(old_pumps_);
}

}  // namespace rollcall::elastic

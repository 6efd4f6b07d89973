#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "runtime/base/small_file.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"
#include "runtime/contract/env_vars.h"
#include "runtime/elastic/agent.h"
#include "runtime/elastic/worker_plan.h"
#include "runtime/elastic/worker_secret.h"

// The processes of a generation: started, taken over from the one before, or kept ready for the next.

namespace rollcall::elastic {
namespace {

/// Whether the kernel takes this process before others where a node's or a job's memory runs out (proc(5),
/// oom_score_adj). Where it may not be said, all are alike.
void may_be_killed_first(pid_t pid, bool on) {
  std::string own;
  if (!on && !read_small_file("/proc/self/oom_score_adj", 16, own).reason.empty()) {
    return;
  }
  const std::string path = fmt::format("/proc/{}/oom_score_adj", pid);
  if (const int file = open(path.c_str(), O_WRONLY | O_CLOEXEC); file >= 0) {
    const std::string text = on ? "1000" : own;
    (void)!write(file, text.data(), text.size());
    close(file);
  }
}

/// Whatever needed a descriptor or a process when there were no more.
std::string what_to_try(const Error& error) {
  if (error.reason.ends_with(errno_text(EMFILE)) || error.reason.ends_with(errno_text(ENFILE))) {
    return "a higher ulimit -n";
  }
  return error.reason.ends_with(errno_text(EAGAIN)) ? "a higher ulimit -u" : error.action;
}

std::vector<std::string> texts_of(const Environment& environment) {
  std::vector<std::string> texts;
  for (const auto& [name, value] : environment.variables()) {
    texts.push_back(std::string(name).append("=").append(value));
  }
  return texts;
}

}  // namespace

void Agent::start(const Generation& generation) {
  announce(generation);
  began_ = Clock::now();
  standby_failed_ = false;
  secret_ = secret_ < 0 ? worker_secret(request_.meeting.secret, generation.run, environment_) : secret_;
  group_ = std::make_unique<WorkerGroup>();
  pump_ = std::make_unique<LogPump>([this](const std::string& line) { tell_("rollcall: warning: " + line); });
  set_up_failure_.reset();
  AttemptFiles files;
  files.workers.resize(request_.workers);
  if (folders_) {
    Result<AttemptFiles> made = folders_->next_attempt(request_.workers);
    if (made) {
      files = *std::move(made);
    } else {  // a full disk costs the logs, not the node
      tell_("rollcall: warning: " + made.error().setting + ": " + made.error().value + ": " + made.error().reason +
            ": this attempt shows all on the terminal");
    }
  }
  error_files_.clear();
  for (const WorkerFiles& worker : files.workers) {
    error_files_.push_back(worker.error);
  }
  for (std::uint32_t rank = 0; rank < request_.workers; ++rank) {
    if (Result<void> started = begin_worker(generation, rank, files); !started) {
      EndedWorker none{.local_rank = rank, .exit_code = to_int(started.error().exit_code()), .seen = Clock::now()};
      set_up_failure_ = cause_of(none);
      set_up_failure_->kind = Cause::Kind::SetUp;
      const Error& error = started.error();
      set_up_failure_->message =
          fmt::format("{}{}: {}; try {}", error.setting, error.value.empty() ? "" : ": " + error.value, error.reason,
                      what_to_try(error));
      member_.worker_failed(*set_up_failure_);
      for (Survivor& survivor : survivors_) {  // they are stopped with the others
        if (survivor.link) {
          group_->adopt(std::move(survivor));
        }
      }
      break;
    }
  }
  pump_->start();
  reap();
}

/// A worker that has lived on takes its place again, the standby that of one that has not; else a process is started.
Result<void> Agent::begin_worker(const Generation& generation, std::uint32_t local_rank, const AttemptFiles& files) {
  ASSIGN_OR_RETURN(auto variables,
                   worker_variables(request_, generation, local_rank, files.workers[local_rank].error, environment_));
  Survivor survivor = local_rank < survivors_.size() ? std::move(survivors_[local_rank]) : Survivor();
  if (survivor.link && !survivor.link->held()) {  // it has died since, or wants no more of it
    discard(std::exchange(survivor, Survivor()).pid);
  }
  if (!survivor.link && standby_.link && standby_.link->lives_on()) {
    survivor = std::exchange(standby_, Survivor());
    may_be_killed_first(survivor.pid, false);
  }
  if (!survivor.link) {
    return start_worker(generation, local_rank, files, variables);
  }
  survivor.link->begin(variables);
  group_->adopt(std::move(survivor));
  return {};
}

Result<void> Agent::start_worker(const Generation& generation, std::uint32_t local_rank, const AttemptFiles& files,
                                 const Variables& variables) {
  Environment environment = environment_;
  for (const auto& [name, value] : variables) {
    environment.set(name, value);
  }
  std::optional<WorkerLink::Made> made = WorkerLink::make(loop_);
  ProcessPlan plan = plan_for(std::move(environment), local_rank, made ? made->worker_end : -1);
  const Result<int> out = open_stream(generation, local_rank, files, false);
  const Result<int> err = out ? open_stream(generation, local_rank, files, true) : out;
  Result<void> started = err ? Result<void>() : err.error();
  if (started) {
    plan.out = *out;
    plan.err = *err;
    started = group_->start(plan, made ? std::move(made->link) : nullptr);
  }
  for (const int end : {plan.link, out ? *out : -1, err ? *err : -1}) {
    if (end >= 0) {
      close(end);
    }
  }
  return started;
}

/// With what the process inherits.
ProcessPlan Agent::plan_for(Environment environment, std::uint32_t local_rank, int link) const {
  for (const auto& [name, descriptor] : {std::pair(env::kAgentLink, link), std::pair(env::kSecretFd, secret_)}) {
    if (descriptor >= 0) {
      environment.set(std::string(name), std::to_string(descriptor));
    }
  }
  ProcessPlan plan;
  plan.link = link;
  plan.secret = secret_;
  plan.command = worker_command(request_, local_rank);
  plan.environment = texts_of(environment);
  return plan;
}

/// What the worker's stream becomes: -1 for this process's own, else a descriptor that the caller closes.
Result<int> Agent::open_stream(const Generation& generation, std::uint32_t local_rank, const AttemptFiles& files,
                               bool err) {
  const Streams teed = request_.logs.tee.of(local_rank);
  const std::string& file = err ? files.workers[local_rank].err : files.workers[local_rank].out;
  const bool shown = request_.logs.shown.empty() || request_.logs.shown.contains(local_rank);
  if ((err ? teed.err : teed.out) && !file.empty()) {
    return pump_->add({line_prefix(request_, generation, local_rank, this_host_name()), file,
                       shown ? (err ? STDERR_FILENO : STDOUT_FILENO) : -1,
                       err ? files.filtered_err : files.filtered_out,
                       err ? request_.logs.err_filters : request_.logs.out_filters});
  }
  if (file.empty() && shown) {
    return -1;
  }
  if (!file.empty()) {
    return open_log(file);
  }
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) {
    return fail("--log-dir", "/dev/null", "cannot be opened: " + errno_text(errno), "a higher ulimit -n",
                ErrorKind::CannotCreate);
  }
  return nowhere;
}

/// Whether a process could take the place of any of them.
bool Agent::workers_are_alike() const {
  bool alike = !request_.virtual_local_rank;
  for (std::uint32_t rank = 1; rank < request_.workers; ++rank) {
    alike = alike && worker_command(request_, rank) == worker_command(request_, 0);
  }
  return alike;
}

/// When the generation has worked for a while, so that a new process does not take the CPUs from those that begin.
std::optional<Clock::time_point> Agent::standby_due() const {
  constexpr std::chrono::seconds kSettled{2};
  const bool wanted = request_.standby && standby_.pid == 0 && !standby_failed_ && group_ && group_->any_lives_on() &&
                      member_.state() == Member::State::Running;
  return wanted && workers_are_alike() ? std::optional(began_ + kSettled) : std::nullopt;
}

/// Ends what is left of its session. Nobody waits for it: a process may take seconds to leave a device.
void Agent::discard(pid_t pid) {
  for (const pid_t member : living_members(std::vector{pid})) {
    ::kill(member, SIGKILL);
  }
  discarded_.push_back(pid);
}

/// A standby is a process of the same program without a rank; it has loaded what it needs when it takes a place.
void Agent::keep_standby() {
  siginfo_t how{};
  if (standby_.pid > 0 && waitid(P_PID, static_cast<id_t>(standby_.pid), &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      how.si_pid != 0) {
    discard(std::exchange(standby_, Survivor()).pid);
    standby_failed_ = true;                        // until the next generation
    request_.standby = how.si_code == CLD_EXITED;  // one that was killed may have had no room
    tell_("rollcall: warning: the process that was to take the place of a worker that fails has ended");
  }
  if (const auto due = standby_due(); due && Clock::now() >= *due) {
    standby_failed_ = !start_standby();
  }
}

bool Agent::start_standby() {
  std::optional<WorkerLink::Made> made = WorkerLink::make(loop_);
  if (!made) {
    return false;
  }
  Environment environment = environment_;
  environment.set(std::string(env::kStandby), "1");
  if (auto threads = worker_threads(request_, environment_)) {
    environment.set(std::string(env::kOmpThreads), *std::move(threads));
  }
  ProcessPlan plan = plan_for(std::move(environment), 0, made->worker_end);
  const std::string folder = folders_ ? folders_->run_folder().string() : "";
  const bool kept = !folder.empty() && (request_.logs.redirects.any() || request_.logs.tee.any());
  const Result<int> log = kept ? open_log(folder + "/standby.log") : Result<int>(-1);
  plan.out = plan.err = log ? *log : -1;
  const Result<pid_t> pid = start_process(plan);
  for (const int end : {made->worker_end, log ? *log : -1}) {
    if (end >= 0) {
      close(end);
    }
  }
  if (pid) {
    may_be_killed_first(*pid, true);
    made->link->listen_to(*pid);
    standby_ = {*pid, std::move(made->link)};
  }
  return pid.has_value();
}

/// At the end of the run: TERM, as those get it that were never told to hold.
void Agent::end_survivors() {
  WorkerGroup last;
  if (standby_.pid > 0) {
    ::kill(standby_.pid, SIGKILL);  // it has nothing to save
    last.adopt(std::exchange(standby_, Survivor()));
  }
  for (Survivor& survivor : survivors_) {
    if (survivor.link) {
      last.adopt(std::move(survivor));
    }
  }
  survivors_.clear();
  last.stop(SIGTERM, request_.shutdown_timeout, Clock::now());
  (void)last.newly_ended();
  last.tick(Clock::now());
  while (!last.over()) {
    const std::vector<int> signals = loop_.wait(last.next_tick());
    if (std::ranges::any_of(signals, [&](int signal) { return std::ranges::count(request_.signals, signal) > 0; })) {
      last.stop(SIGKILL, std::chrono::seconds(0), Clock::now());
    }
    (void)last.newly_ended();
    last.tick(Clock::now());
  }
  for (const std::unique_ptr<LogPump>& pump : old_pumps_) {
    pump->ask_to_finish();
  }
}

}  // namespace rollcall::elastic

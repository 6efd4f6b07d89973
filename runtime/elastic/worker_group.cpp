#include "runtime/elastic/worker_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "runtime/elastic/process.h"

namespace rollcall::elastic {
namespace {

constexpr std::chrono::milliseconds kLongestLook{50};

void kill_all(const std::vector<pid_t>& pids) {
  for (const pid_t pid : pids) {
    ::kill(pid, SIGKILL);
  }
}

}  // namespace

WorkerGroup::~WorkerGroup() {
  kill_sessions();
  for (const Worker& worker : workers_) {
    waitpid(worker.pid, nullptr, gave_up() ? WNOHANG : 0);
  }
}

std::vector<pid_t> WorkerGroup::pids() const {
  std::vector<pid_t> pids;
  std::ranges::transform(workers_, std::back_inserter(pids), &Worker::pid);
  return pids;
}

bool WorkerGroup::has_ended(std::uint32_t local_rank) const {
  return std::ranges::find(ended_, local_rank, &EndedWorker::local_rank) != ended_.end();
}

std::vector<EndedWorker> WorkerGroup::newly_ended() {
  std::vector<EndedWorker> found;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    siginfo_t how{};
    const pid_t pid = workers_[rank].pid;
    if (has_ended(rank) || waitid(P_PID, static_cast<id_t>(pid), &how, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        how.si_pid == 0) {
      continue;
    }
    const bool exited = how.si_code == CLD_EXITED;
    found.push_back({rank, pid, exited ? how.si_status : 0, exited ? 0 : how.si_status, Clock::now(),
                     rank < error_files_.size() ? error_files_[rank] : "", stopped_, stage_ == Stage::Killed});
  }
  ended_.insert(ended_.end(), found.begin(), found.end());
  return found;
}

void WorkerGroup::forward(int signal) const {
  for (const Worker& worker : workers_) {
    ::kill(-worker.pid, signal);
  }
}

bool WorkerGroup::all_ended_well() const {
  return ended_.size() == workers_.size() &&
         std::ranges::all_of(ended_, [](const EndedWorker& one) { return one.exit_code == 0 && one.signal == 0; });
}

std::vector<pid_t> WorkerGroup::ended_or_ending() const {
  std::vector<pid_t> pids;
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    const WorkerLink* const link = workers_[rank].link.get();
    if (has_ended(rank) || !keep_ || link == nullptr || !link->held()) {
      pids.push_back(workers_[rank].pid);
    }
  }
  return pids;
}

bool WorkerGroup::all_gone() const { return ended_or_ending().size() == ended_.size(); }

bool WorkerGroup::any_survives() const {
  return std::ranges::any_of(workers_, [](const Worker& worker) { return worker.link && worker.link->survives(); });
}

std::optional<std::pair<std::uint32_t, std::string>> WorkerGroup::take_stall_report() {
  for (std::uint32_t rank = 0; stage_ == Stage::Running && rank < workers_.size(); ++rank) {
    std::optional<std::string> reason = workers_[rank].link ? workers_[rank].link->take_stall_report() : std::nullopt;
    if (reason && !has_ended(rank)) {
      return std::pair(rank, *std::move(reason));
    }
  }
  return std::nullopt;
}

void WorkerGroup::kill_sessions() {
  const std::vector<pid_t> sessions = ended_or_ending();
  if (stage_ == Stage::Clean || sessions.empty() || (stage_ == Stage::Running && all_ended_well())) {
    return;  // background processes of successful workers are left alone
  }
  kill_all(living_members(sessions));
}

void WorkerGroup::stop(int signal, std::chrono::seconds grace, Clock::time_point now, bool keep, bool lost) {
  if (stage_ == Stage::Running) {
    stage_ = Stage::Asked;
    keep_ = keep;
    grace_ = grace;
    stopped_ = now;
    deadline_ = now + grace;
    for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
      const Worker& worker = workers_[rank];
      const bool lives_on = keep_ && !has_ended(rank) && worker.link && worker.link->survives();
      lives_on ? worker.link->hold(lost) : static_cast<void>(::kill(-worker.pid, signal));
    }
    forward(SIGCONT);  // a process stopped by SIGSTOP would not handle the signal
  } else if (stage_ == Stage::Asked) {
    deadline_ = now;
  }
  next_look_ = now;
}

void WorkerGroup::report_loss() {
  for (std::uint32_t rank = 0; stage_ == Stage::Asked && keep_ && rank < workers_.size(); ++rank) {
    if (const Worker& worker = workers_[rank]; !has_ended(rank) && worker.link && worker.link->survives()) {
      worker.link->hold(true);
    }
  }
}

std::vector<Worker> WorkerGroup::take_survivors() {
  std::vector<Worker> taken(workers_.size());
  for (std::uint32_t rank = 0; rank < workers_.size(); ++rank) {
    if (keep_ && !has_ended(rank) && workers_[rank].link && workers_[rank].link->held()) {
      taken[rank] = std::exchange(workers_[rank], Worker{});
    }
  }
  std::erase_if(workers_, [](const Worker& worker) { return worker.pid == 0; });
  return taken;
}

void WorkerGroup::tick(Clock::time_point now) {
  if (stage_ != Stage::Asked && stage_ != Stage::Killed) {
    return;
  }
  if (now >= deadline_) {
    if (stage_ == Stage::Killed) {
      stage_ = Stage::GivenUp;
      return;
    }
    stage_ = Stage::Killed;
    deadline_ = now + std::max(grace_, std::chrono::seconds(1));
    pause_ = std::chrono::milliseconds(1);
    kill_sessions();
  }
  if (all_gone() && now >= next_look_) {
    check_sessions(now);
  }
}

void WorkerGroup::check_sessions(Clock::time_point now) {
  const std::vector<pid_t> living = living_members(ended_or_ending());
  if (living.empty()) {
    stage_ = Stage::Clean;
    return;
  }
  if (stage_ == Stage::Killed) {
    kill_all(living);  // started by one of them before it was killed
  }
  next_look_ = now + pause_;
  pause_ = std::min(pause_ * 2, kLongestLook);
}

std::optional<Clock::time_point> WorkerGroup::next_tick() const {
  if (stage_ != Stage::Asked && stage_ != Stage::Killed) {
    return std::nullopt;
  }
  return all_gone() ? std::min(deadline_, next_look_) : deadline_;
}

bool WorkerGroup::over() const {
  return stage_ == Stage::Running ? all_ended_well() : stage_ == Stage::Clean || stage_ == Stage::GivenUp;
}

}  // namespace rollcall::elastic

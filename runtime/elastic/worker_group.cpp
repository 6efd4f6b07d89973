#include "runtime/elastic/worker_group.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

namespace rollcall::elastic {
namespace {

constexpr std::chrono::milliseconds kLongestLook{50};

}  // namespace

WorkerGroup::~WorkerGroup() {
  kill_sessions();
  for (const pid_t pid : pids_) {
    waitpid(pid, nullptr, gave_up() ? WNOHANG : 0);
  }
}

Result<void> WorkerGroup::start(const ProcessPlan& plan) {
  const Result<pid_t> pid = start_process(plan);
  if (!pid) {
    return pid.error();
  }
  pids_.push_back(*pid);
  return {};
}

std::vector<EndedWorker> WorkerGroup::newly_ended() {
  std::vector<EndedWorker> found;
  for (std::uint32_t rank = 0; rank < pids_.size(); ++rank) {
    siginfo_t how{};
    const bool known = std::ranges::find(ended_, rank, &EndedWorker::local_rank) != ended_.end();
    const auto id = static_cast<id_t>(pids_[rank]);
    if (known || waitid(P_PID, id, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0) {
      continue;
    }
    const bool exited = how.si_code == CLD_EXITED;
    found.push_back({rank, pids_[rank], exited ? how.si_status : 0, exited ? 0 : how.si_status, Clock::now(),
                     stage_ != Stage::Running, stage_ == Stage::Killed});
  }
  ended_.insert(ended_.end(), found.begin(), found.end());
  return found;
}

void WorkerGroup::forward(int signal) const {
  for (const pid_t pid : pids_) {
    ::kill(-pid, signal);
  }
}

bool WorkerGroup::all_ended_well() const {
  return ended_.size() == pids_.size() &&
         std::ranges::all_of(ended_, [](const EndedWorker& one) { return one.exit_code == 0 && one.signal == 0; });
}

void WorkerGroup::kill_sessions() {
  if (stage_ == Stage::Clean || pids_.empty() || (stage_ == Stage::Running && all_ended_well())) {
    return;  // what workers that ended well left running is theirs
  }
  for (const pid_t pid : living_members(pids_)) {
    ::kill(pid, SIGKILL);
  }
}

void WorkerGroup::stop(int signal, std::chrono::seconds grace, Clock::time_point now) {
  if (stage_ == Stage::Running) {
    stage_ = Stage::Asked;
    grace_ = grace;
    deadline_ = now + grace;
    forward(signal);
    forward(SIGCONT);  // one that is stopped (SIGSTOP) would never end by it
  } else if (stage_ == Stage::Asked) {
    deadline_ = now;
  }
  next_look_ = now;
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
  const bool look = ended_.size() == pids_.size() && now >= next_look_;
  if (look && living_members(pids_).empty()) {
    stage_ = Stage::Clean;
  } else if (look) {
    next_look_ = now + pause_;
    pause_ = std::min(pause_ * 2, kLongestLook);
  }
}

std::optional<Clock::time_point> WorkerGroup::next_tick() const {
  if (stage_ != Stage::Asked && stage_ != Stage::Killed) {
    return std::nullopt;
  }
  return ended_.size() == pids_.size() ? std::min(deadline_, next_look_) : deadline_;
}

bool WorkerGroup::over() const {
  return stage_ == Stage::Running ? all_ended_well() : stage_ == Stage::Clean || stage_ == Stage::GivenUp;
}

}  // namespace rollcall::elastic

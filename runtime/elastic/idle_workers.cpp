#include "runtime/elastic/idle_workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "runtime/base/file.h"
#include "runtime/base/small_file.h"
#include "runtime/elastic/process.h"

namespace rollcall::elastic {
namespace {

/// Sets whether the kernel kills this process first when a node or a job is out of memory (proc(5), oom_score_adj). Has
/// no effect where that is not permitted.
void may_be_killed_first(pid_t pid, bool on) {
  std::string own;
  if (on || read_small_file("/proc/self/oom_score_adj", 16, own).reason.empty()) {
    const File file(fmt::format("/proc/{}/oom_score_adj", pid), O_WRONLY);
    (void)write_all(file.descriptor(), on ? "1000" : own);
  }
}

}  // namespace

Worker IdleWorkers::take(std::uint32_t local_rank) {
  Worker survivor = local_rank < survivors_.size() ? std::exchange(survivors_[local_rank], {}) : Worker();
  if (survivor.link && !survivor.link->held()) {  // it has died, or refuses to continue
    discard(std::exchange(survivor, {}).pid);
  }
  return survivor.link || !standby() ? std::move(survivor) : take_standby();
}

std::vector<Worker> IdleWorkers::take_survivors() {
  std::erase_if(survivors_, [](const Worker& one) { return one.link == nullptr; });
  return std::exchange(survivors_, {});
}

Worker IdleWorkers::take_standby() {
  if (standby_.pid > 0) {
    may_be_killed_first(standby_.pid, false);
  }
  return std::exchange(standby_, {});
}

void IdleWorkers::forward(int signal) const {
  for (const Worker& survivor : survivors_) {
    if (survivor.link) {
      ::kill(-survivor.pid, signal);
    }
  }
}

void IdleWorkers::reap(const PrintLine& print_line) {
  siginfo_t how{};
  if (standby_.pid > 0 && waitid(P_PID, static_cast<id_t>(standby_.pid), &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      how.si_pid != 0) {
    discard(std::exchange(standby_, {}).pid);
    standby_failed_ = true;
    standby_wanted_ = how.si_code == CLD_EXITED;  // a killed one may have lacked memory
    print_line("rollcall: warning: run: the standby process, which replaces a failed worker, has ended");
  }
  std::erase_if(discarded_, [](pid_t pid) { return waitpid(pid, nullptr, WNOHANG) != 0; });
}

void IdleWorkers::keep_standby(Result<Worker> started) {
  standby_failed_ = !started || !started->link;
  if (!standby_failed_) {
    may_be_killed_first(started->pid, true);
    standby_ = *std::move(started);
  } else if (started) {  // it cannot receive a rank
    discard(started->pid);
  }
}

std::optional<pid_t> IdleWorkers::standby() const {
  return standby_.link && standby_.link->survives() ? std::optional(standby_.pid) : std::nullopt;
}

/// Kills all processes left in its session, without waiting: a process may take seconds to release a device.
void IdleWorkers::discard(pid_t pid) {
  for (const pid_t member : living_members(std::vector{pid})) {
    ::kill(member, SIGKILL);
  }
  discarded_.push_back(pid);
}

}  // namespace rollcall::elastic

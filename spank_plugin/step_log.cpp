#include "spank_plugin/task.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>

#include "spank_plugin/buffer.h"

namespace rollcall::spank {
namespace {

std::uint32_t item(spank_t spank, spank_item_t name) {
  std::uint32_t value = 0;
  return spank_get_item(spank, name, &value) == ESPANK_SUCCESS ? value : 0;
}

/// Returns whether this node has rank 0. In a het step, SLURM_JOB_ID is the first component's job.
bool has_rank_0(spank_t spank) {
  Buffer job;
  Buffer own;
  own.append(item(spank, S_JOB_ID));
  return item(spank, S_JOB_NODEID) == 0 && get_variable(spank, "SLURM_JOB_ID", job) && job.text() == own.text();
}

void send_to_log(const char* line) {
  const int log = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "/dev/log");
  if (log >= 0) {
    (void)::sendto(log, line, std::strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL,
                   reinterpret_cast<const sockaddr*>(&address), sizeof address);
    ::close(log);
  }
}

}  // namespace

void StepLog::task_ended(spank_t spank) {
  const auto status = static_cast<int>(item(spank, S_TASK_EXIT_STATUS));
  highest_ = std::max(highest_, WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

void StepLog::write(spank_t spank) const {
  if (!has_rank_0(spank)) {
    return;
  }
  char time[32] = "";
  const std::time_t now = ::time(nullptr);
  std::tm parts{};
  std::strftime(time, sizeof time, "%b %e %H:%M:%S", ::localtime_r(&now, &parts));
  Buffer nodes;
  (void)get_variable(spank, "SLURM_STEP_NODELIST", nodes);
  char line[1024];
  std::snprintf(line, sizeof line, "<%d>%s rollcall[%d]: --ddp: user %u, step %u.%u, %u node%s (%.512s), ended with %d",
                LOG_DAEMON | LOG_INFO, time, ::getpid(), item(spank, S_JOB_UID), item(spank, S_JOB_ID),
                item(spank, S_JOB_STEPID), item(spank, S_JOB_NNODES), item(spank, S_JOB_NNODES) == 1 ? "" : "s",
                nodes.c_str(), highest_);
  make_printable(line);
  send_to_log(line);
}

}  // namespace rollcall::spank

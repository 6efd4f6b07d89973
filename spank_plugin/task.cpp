#include "spank_plugin/task.h"

#include <slurm/slurm.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "runtime/contract/hook_wire.h"
#include "spank_plugin/request.h"

namespace rollcall::spank {
namespace {

constexpr const char* kMarker = "ROLLCALL_SET";

/// Variables that some versions of SPANK do not put into S_JOB_ENV.
constexpr const char* kTaskVariables[]{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURMD_NODENAME",
                                       "PMIX_RANK",    "PMI_RANK",      "SLURM_GTIDS"};

/// Renames this process while rollcall runs in it. Without cgroups (proctrack/linuxproc), Slurm assumes that a process
/// with slurmstepd's name is slurmstepd, and its SIGKILL would skip a task that hangs.
class OwnName {
 public:
  OwnName() {
    ::prctl(PR_GET_NAME, before_);
    ::prctl(PR_SET_NAME, "rollcall-task");
  }
  ~OwnName() { ::prctl(PR_SET_NAME, before_); }
  OwnName(const OwnName&) = delete;
  OwnName& operator=(const OwnName&) = delete;

 private:
  char before_[16]{};
};

/// Handles SIGTERM and SIGALRM as long as it lives, or until exec(3). SIGTERM ends this process silently with exit code
/// 1, which is below the code of every cause, so that a step that Slurm ends after its first failing task has that
/// task's exit code. The default, 143 for a shell and srun, would be above them. The program sends SIGALRM when its
/// time is up, also while this process waits for slurmctld. Only one object may exist at a time.
class EndBySignal {
 public:
  EndBySignal() {
    struct sigaction action {};
    action.sa_handler = [](int signal) {
      kill_program();
      ::_exit(to_int(signal == SIGTERM ? ExitCode::Ended : ExitCode::Unavailable));
    };
    ::sigaction(SIGTERM, &action, &term_);
    ::sigaction(SIGALRM, &action, &alarm_);
  }
  ~EndBySignal() {
    ::sigaction(SIGTERM, &term_, nullptr);
    ::sigaction(SIGALRM, &alarm_, nullptr);
  }
  EndBySignal(const EndBySignal&) = delete;
  EndBySignal& operator=(const EndBySignal&) = delete;

 private:
  struct sigaction term_ {};
  struct sigaction alarm_ {};
};

void add_item(spank_t spank, spank_item_t name, const char* as, Request& request) {
  std::uint32_t value = 0;
  if (spank_get_item(spank, name, &value) == ESPANK_SUCCESS) {
    request.item(as, value);
  }
}

void describe_task(spank_t spank, Request& request) {
  Buffer value;
  for (const char* const name : kTaskVariables) {
    if (get_variable(spank, name, value)) {
      Buffer entry;
      entry.append(name);
      entry.append("=");
      entry.append(value.text());
      request.variable(entry.text());
    }
  }
  char** entries = nullptr;
  if (spank_get_item(spank, S_JOB_ENV, &entries) == ESPANK_SUCCESS) {
    for (; entries != nullptr && *entries != nullptr; ++entries) {
      request.variable(*entries);
    }
  }
  add_item(spank, S_JOB_ID, "job", request);
  add_item(spank, S_JOB_STEPID, "step", request);
  add_item(spank, S_JOB_NNODES, "nodes", request);
  add_item(spank, S_JOB_UID, "user", request);
  add_item(spank, S_TASK_GLOBAL_ID, "rank", request);
}

void report(const Failure& failure) {
  if (failure.text[0] != '\0') {
    slurm_error("%s", failure.text);
  }
}

}  // namespace

bool is_srun_step(spank_t spank) {
  std::uint32_t step = 0;
  return spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS && step < SLURM_MAX_NORMAL_STEP_ID;
}

bool get_variable(spank_t spank, const char* name, Buffer& value) {
  constexpr int kFirstGuess = 256;
  constexpr int kLongest = 1 << 22;  // above the kernel's limit for one variable (128 KiB)
  for (int size = kFirstGuess; size <= kLongest; size *= 4) {
    char* const room = value.make_room(static_cast<std::size_t>(size));
    const int status = room == nullptr ? int{ESPANK_ERROR} : spank_getenv(spank, name, room, size);
    if (status == ESPANK_SUCCESS) {
      value.cut_at_end();
      return true;
    }
    if (status != ESPANK_NOSPACE) {
      break;
    }
  }
  value.clear();
  return false;
}

void SharedByTasks::make(spank_t spank) {
  memory_ = ::memfd_create("rollcall-tasks", MFD_CLOEXEC);
  if (memory_ >= 0 && ::ftruncate(memory_, hook::kSharedSize) != 0) {
    ::close(memory_);
    memory_ = -1;
  }
  (void)get_variable(spank, "SLURM_STEP_GPUS", gpus_);
}

bool SharedByTasks::claim_report() const {
  void* const memory =
      memory_ < 0 ? MAP_FAILED : ::mmap(nullptr, hook::kSharedSize, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  return memory == MAP_FAILED || __atomic_exchange_n(static_cast<std::uint32_t*>(memory), 1U, __ATOMIC_SEQ_CST) == 0;
}

void end_task(const Failure& failure, const SharedByTasks& shared) {
  if (failure.text[0] != '\0' && shared.claim_report()) {
    report(failure);
  }
  ::_exit(failure.exit_code);
}

void set_up_task(spank_t spank, const Site& site, const char* option, const SharedByTasks& shared) {
  const OwnName own_name;
  const EndBySignal end_by_signal;
  Request request(spank, site, shared.descriptor());
  describe_task(spank, request);
  request.item("gpus", shared.gpus());
  request.item("option", option);
  const Failure failure = request.ask("task");
  end_program();
  if (failure) {
    end_task(failure, shared);
  }
}

void drop_other_steps_variables(spank_t spank, const Site& site) {
  Buffer marker;
  if (!get_variable(spank, kMarker, marker)) {
    return;
  }
  Request request(spank, site, -1);
  describe_task(spank, request);
  report(request.ask("task"));
  end_program();
}

}  // namespace rollcall::spank

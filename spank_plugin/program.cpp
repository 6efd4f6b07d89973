#include "spank_plugin/program.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "runtime/contract/hook_wire.h"

namespace rollcall::spank {
namespace {

constexpr long kGrace = 1000;  // milliseconds until a program must have ended
constexpr int kBeyond = 10;    // above the descriptor numbers that the child uses

/// The arguments of the child, made before vfork(2), because the child shares this process's memory.
struct Start {
  const char* path;
  char* const* arguments;
  char* const* environment;
  int socket;
  int shared;
  pid_t parent;
};

/// Closes all descriptors from `first` on at exec: slurmstepd's files are not for the user.
void close_others_on_exec(int first) {
#ifdef SYS_close_range
  constexpr unsigned kCloseOnExec = 4;
  if (::syscall(SYS_close_range, first, ~0U, kCloseOnExec) == 0) {
    return;
  }
#endif
  constexpr rlim_t kMost = 65536;
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  for (int file = first; file < static_cast<int>(std::min(limit.rlim_cur, kMost)); ++file) {
    ::fcntl(file, F_SETFD, FD_CLOEXEC);
  }
}

/// Removes this process's handlers, which would run in the memory that the child shares. Ignored signals stay ignored.
void forget_handlers() {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action {};
    if (::sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN) {
      ::signal(number, SIG_DFL);
    }
  }
}

/// Executes the program in the child.
[[noreturn]] void become(const Start& start, volatile int& error_number) {
  ::signal(SIGTERM, SIG_IGN);
  forget_handlers();
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(start.socket, hook::kSocket);
  if (start.shared >= 0) {
    ::dup2(start.shared, hook::kShared);
  }
  close_others_on_exec(start.shared >= 0 ? hook::kShared + 1 : hook::kSocket + 1);
  if (::getppid() == start.parent) {
    ::execve(start.path, start.arguments, start.environment);
    error_number = errno;
  }
  ::_exit(to_int(ExitCode::NotExecutable));
}

pid_t fork_and_become(const Start& start, int& error_number) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);  // until the child has none of this process's handlers
  volatile int child_error = 0;
  const pid_t pid = ::vfork();  // NOLINT: fork(2) would copy slurmstepd's page tables
  if (pid == 0) {
    become(start, child_error);  // NOLINT(clang-analyzer-unix.Vfork): it makes system calls alone, and does not return
  }
  error_number = pid < 0 ? errno : child_error;
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return pid;
}

/// Returns `environ`, or in slurmstepd only the variables of the loader.
char** environment_for_program(bool of_slurmstepd, char** room, std::size_t size) {
  if (!of_slurmstepd) {
    return environ;
  }
  std::size_t used = 0;
  for (char** entry = environ; *entry != nullptr && used + 1 < size; ++entry) {
    if (std::string_view(*entry).starts_with("LD_")) {
      room[used++] = *entry;
    }
  }
  room[used] = nullptr;
  return room;
}

/// Waits until the program has ended, which usually takes microseconds.
int end_within(long milliseconds, Program& program) {
  const long deadline = now() + milliseconds;
  int status = 0;
  for (useconds_t pause = 20;; pause = std::min<useconds_t>(2 * pause, 10'000)) {
    if (::waitpid(program.pid, &status, WNOHANG) != 0) {
      program.pid = -1;
      return status;
    }
    if (deadline <= now()) {
      return status;
    }
    ::usleep(pause);
  }
}

void close_socket(Program& program) {
  if (program.socket >= 0) {
    ::close(program.socket);
  }
  program = {};
}

}  // namespace

Failure start_program(const char* path, int shared, bool of_slurmstepd, Program& program) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return failed(ExitCode::Unavailable, "rollcall: --ddp: %s: cannot be executed: %s; try raising ulimit -n", path,
                  std::strerror(errno));
  }
  constexpr std::size_t kMostEntries = 64;
  char* few[kMostEntries];
  char command[] = "rollcall";
  char subcommand[sizeof hook::kCommand];
  std::memcpy(subcommand, hook::kCommand, sizeof subcommand);
  char version[64];
  std::snprintf(version, sizeof version, ROLLCALL_VERSION " %s", hook::protocol());
  char* arguments[]{command, subcommand, version, nullptr};
  // Above the numbers that they get in the child, so that dup2(2) does not close one of them.
  const int socket = ::fcntl(ends[1], F_DUPFD_CLOEXEC, kBeyond);
  const int high = shared >= 0 ? ::fcntl(shared, F_DUPFD_CLOEXEC, kBeyond) : -1;
  int error_number = socket < 0 || (shared >= 0 && high < 0) ? EMFILE : 0;
  if (error_number == 0) {
    program.pid = fork_and_become(
        {path, arguments, environment_for_program(of_slurmstepd, few, kMostEntries), socket, high, ::getpid()},
        error_number);
  }
  ::close(ends[1]);
  for (const int copy : {socket, high}) {
    if (copy >= 0) {
      ::close(copy);
    }
  }
  program.socket = ends[0];
  if (error_number == EMFILE && !program.runs()) {
    stop_program(program);
    return failed(
        ExitCode::Unavailable,
        "rollcall: --ddp: %s: cannot be executed: this process has too few file descriptors; try raising ulimit -n",
        path);
  }
  if (error_number != 0) {
    stop_program(program);
    return failed(ExitCode::NotExecutable, "rollcall: --ddp: %s: cannot be executed: %s; try asking your administrator",
                  path, std::strerror(error_number));
  }
  return {};
}

void stop_program(Program& program) {
  if (program.runs()) {
    ::kill(program.pid, SIGKILL);
    (void)end_within(kGrace, program);
  }
  close_socket(program);
}

int status_of_end(Program& program) {
  int status = end_within(kGrace, program);
  if (program.runs()) {
    ::kill(program.pid, SIGKILL);
    status = end_within(kGrace, program);
  }
  close_socket(program);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace rollcall::spank

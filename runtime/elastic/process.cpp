#include "runtime/elastic/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/text.h"
#include "runtime/base/this_process.h"

namespace rollcall::elastic {
namespace {

/// Memory prepared before fork(2): the child of a process with threads must not allocate.
struct Prepared {
  std::vector<char*> command;
  std::vector<char*> environment;
  std::vector<std::uint8_t> cpu_bits;
};

Prepared prepare(const ProcessPlan& plan) {
  Prepared prepared{pointers_to(plan.command), pointers_to(plan.environment), {}};
  if (!plan.cpus.empty()) {
    const std::size_t cpus = *std::ranges::max_element(plan.cpus) + std::size_t{1};
    prepared.cpu_bits.resize((cpus + 63) / 64 * 8);
    for (const std::uint32_t cpu : plan.cpus) {
      prepared.cpu_bits[cpu / 8] = static_cast<std::uint8_t>(prepared.cpu_bits[cpu / 8] | (1U << (cpu % 8)));
    }
  }
  return prepared;
}

std::optional<rlimit> open_files_before;  ///< set by raise_own_open_files_limit()

void restore_signals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) {
    sigaction(signal, &standard, nullptr);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

/// Runs the program in the child process. Returns only on failure, with errno.
int become(const ProcessPlan& plan, const Prepared& prepared, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) {
    return ESRCH;  // the parent died before prctl()
  }
  setsid();
  restore_signals();
  if (open_files_before) {
    setrlimit(RLIMIT_NOFILE, &*open_files_before);
  }
  if ((plan.out >= 0 && dup2(plan.out, STDOUT_FILENO) < 0) || (plan.err >= 0 && dup2(plan.err, STDERR_FILENO) < 0)) {
    return errno;
  }
  for (const int kept : {plan.link, plan.secret}) {
    if (kept >= 0 && fcntl(kept, F_SETFD, 0) != 0) {
      return errno;
    }
  }
  if (!prepared.cpu_bits.empty() &&
      sched_setaffinity(0, prepared.cpu_bits.size(), reinterpret_cast<const cpu_set_t*>(prepared.cpu_bits.data())) !=
          0) {
    return errno;
  }
  execvpe(prepared.command.front(), prepared.command.data(), prepared.environment.data());
  return errno;
}

Error cannot_start_worker(const std::string& name, int error_number) {
  const ErrorKind kind = error_number == ENOENT    ? ErrorKind::NotFound
                         : error_number == EACCES  ? ErrorKind::NotExecutable
                         : error_number == ENOEXEC ? ErrorKind::NotExecutable
                                                   : ErrorKind::Unavailable;
  const std::string action = error_number == EMFILE || error_number == ENFILE ? "raising ulimit -n"
                             : error_number == EAGAIN                         ? "raising ulimit -u"
                                                                              : "giving an executable program";
  return fail("run", name, errno_text(error_number), action, kind);
}

/// Returns the session of a live process, from /proc/PID/stat: "pid (name) state ppid pgrp session ...".
std::optional<pid_t> session_of(const char* pid) {
  std::array<char, 512> text{};
  const std::string path = std::string("/proc/") + pid + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return std::nullopt;
  }
  const ssize_t length = read(file, text.data(), text.size() - 1);
  close(file);
  const std::string_view line(text.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= line.size()) {
    return std::nullopt;
  }
  const std::vector<std::string> fields = split(line.substr(name_end + 2), ' ');
  const bool living = fields.size() > 3 && fields[0] != "Z" && fields[0] != "X";
  return living ? parse_integer<pid_t>(fields[3]) : std::nullopt;
}

bool is_file(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

bool is_executable(const std::string& path) { return is_file(path) && access(path.c_str(), X_OK) == 0; }

/// The first path for `name`, where execvp(3) would look, of which `matches` is true; empty where there is none.
std::string find_file(const std::string& name, const std::string& search_path, bool (*matches)(const std::string&)) {
  if (name.find('/') != std::string::npos) {
    return matches(name) ? name : "";
  }
  for (const std::string& folder : split(search_path, ':')) {
    std::string path = (folder.empty() ? "." : folder) + "/" + name;
    if (matches(path)) {
      return path;
    }
  }
  return "";
}

}  // namespace

void raise_own_open_files_limit() { open_files_before = raise_open_files_limit(); }

Result<pid_t> start_process(const ProcessPlan& plan) {
  const Prepared prepared = prepare(plan);
  std::array<int, 2> answer{};
  if (pipe2(answer.data(), O_CLOEXEC) != 0) {
    return cannot_start_worker(plan.command.front(), errno);
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    const int error_number = become(plan, prepared, parent);
    (void)!write(answer[1], &error_number, sizeof error_number);
    _exit(127);
  }
  const int fork_error = errno;
  close(answer[1]);
  int error_number = pid < 0 ? fork_error : 0;
  if (pid > 0) {
    while (read(answer[0], &error_number, sizeof error_number) < 0 && errno == EINTR) {
    }
  }
  close(answer[0]);
  if (error_number == 0) {
    return pid;
  }
  if (pid > 0) {
    waitpid(pid, nullptr, 0);
  }
  return cannot_start_worker(plan.command.front(), error_number);
}

std::vector<pid_t> living_members(std::span<const pid_t> sessions) {
  std::vector<pid_t> members;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir("/proc"), closedir);
  while (const dirent* const entry = folder ? readdir(folder.get()) : nullptr) {
    const auto pid = parse_integer<pid_t>(entry->d_name);
    const std::optional<pid_t> session = pid ? session_of(entry->d_name) : std::nullopt;
    if (session && std::ranges::find(sessions, *session) != sessions.end()) {
      members.push_back(*pid);
    }
  }
  return members;
}

std::string find_program(const std::string& name, const std::string& search_path) {
  return find_file(name, search_path, is_executable);
}

std::string find_not_executable(const std::string& name, const std::string& search_path) {
  const auto matches = [](const std::string& path) { return is_file(path) && access(path.c_str(), X_OK) != 0; };
  return find_file(name, search_path, matches);
}

}  // namespace rollcall::elastic

#include "runtime/base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>

#include "runtime/base/text.h"

namespace rollcall {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOutput = std::size_t{1} << 20;

Error cannot_start(const std::string& program, int error_number) {
  return fail(program, "", "cannot be started: " + errno_text(error_number), "checking that it is installed",
              ErrorKind::Unavailable);
}

/// Starts the program with its output in the pipe. Returns 0 or an errno value.
int spawn(const std::vector<std::string>& command, const Environment& environment, int output, bool alone, pid_t& pid) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment.variables()) {
    entries.push_back(std::string(name).append("=").append(value));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  if (alone) {
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  }
  const int status = ::posix_spawnp(&pid, command.front().c_str(), &actions, nullptr, pointers_to(command).data(),
                                    pointers_to(entries).data());
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

/// Returns the timeout for poll(): -1 without a deadline, 0 after it.
int milliseconds_until(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) {
    return -1;
  }
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(*deadline - Clock::now()).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

/// Reads to the end of the file. Returns false where the deadline comes first.
bool read_all(int file, const std::optional<Clock::time_point>& deadline, std::string& text) {
  std::array<char, 4096> buffer{};
  for (;;) {
    pollfd waiting{file, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, milliseconds_until(deadline));
    if (ready == 0) {
      return false;
    }
    if (ready < 0) {
      continue;  // a signal
    }
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got == 0 || (got < 0 && errno != EINTR)) {
      return true;
    }
    if (got > 0 && text.size() < kMostOutput) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
  }
}

int exit_code_of(pid_t pid) {
  int ended = 0;
  while (::waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
  }
  constexpr int kSignalBase = 128;
  return WIFEXITED(ended) ? WEXITSTATUS(ended) : kSignalBase + WTERMSIG(ended);
}

}  // namespace

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    all.push_back(const_cast<char*>(text.c_str()));
  }
  all.push_back(nullptr);
  return all;
}

Result<ChildOutput> run_and_capture(const std::vector<std::string>& command, const Environment& environment,
                                    const ChildOptions& options) {
  std::optional<Clock::time_point> deadline;
  if (options.patience) {
    deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(*options.patience);
  }
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return cannot_start(command.front(), errno);
  }
  pid_t pid = 0;
  const int status = spawn(command, environment, ends[1], options.alone, pid);
  ::close(ends[1]);
  ChildOutput output;
  if (status == 0 && !read_all(ends[0], deadline, output.text)) {
    output.killed = ::kill(pid, SIGKILL) == 0;
  }
  ::close(ends[0]);
  if (status != 0) {
    return cannot_start(command.front(), status);
  }
  output.exit_code = exit_code_of(pid);
  return output;
}

Result<std::string> output_of(const std::vector<std::string>& command, const Environment& environment,
                              std::chrono::duration<double> patience) {
  const auto failed = [&](const std::string& reason) {
    return fail(command.front(), "", reason, "running it by hand on this node", ErrorKind::Unavailable);
  };
  ASSIGN_OR_RETURN(const ChildOutput output,
                   run_and_capture(command, environment, {.patience = patience, .alone = true}));
  if (output.killed) {
    return failed(fmt::format("did not finish within {:g} s", patience.count()));
  }
  if (output.exit_code != 0) {
    const std::vector<std::string> lines = split(trim(output.text), '\n');
    return failed(lines.empty() ? "failed" : "failed: " + lines.back());
  }
  return output.text;
}

}  // namespace rollcall

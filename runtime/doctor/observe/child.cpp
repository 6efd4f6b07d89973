#include "runtime/doctor/observe/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "runtime/base/text.h"
#include "runtime/doctor/wire/socket.h"

namespace rollcall::doctor {
namespace {

constexpr std::size_t kMostOutput = std::size_t{1} << 20;

Error failed(const std::string& program, const std::string& reason) {
  return fail("doctor", program, reason, "running it by hand on that node", ExitCode::Unavailable);
}

/// Starts the program with both outputs in the pipe; returns 0 or an errno value.
int start(const std::vector<std::string>& arguments, int output, pid_t& child) {
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (const std::string& argument : arguments) {
    argv.push_back(const_cast<char*>(argument.c_str()));
  }
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  const int error = posix_spawnp(&child, argv.front(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

/// Reads to the end; false where the deadline came first.
bool read_all(int descriptor, Clock::time_point deadline, std::string& text) {
  std::array<char, 4096> piece{};
  while (true) {
    pollfd waiting{descriptor, POLLIN, 0};
    if (poll(&waiting, 1, milliseconds_until(deadline)) == 0) {
      return false;
    }
    const ssize_t count = read(descriptor, piece.data(), piece.size());
    if (count <= 0) {
      return true;
    }
    if (text.size() < kMostOutput) {
      text.append(piece.data(), static_cast<std::size_t>(count));
    }
  }
}

}  // namespace

Result<std::string> output_of(const std::vector<std::string>& arguments, std::chrono::duration<double> patience) {
  const Clock::time_point deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(patience);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return failed(arguments.front(), errno_text(errno));
  }
  pid_t child = 0;
  const int error = start(arguments, ends[1], child);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    return failed(arguments.front(), errno_text(error));
  }
  std::string text;
  const bool ended = read_all(ends[0], deadline, text);
  close(ends[0]);
  if (!ended) {
    kill(child, SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (!ended) {
    return failed(arguments.front(), fmt::format("does not end within {:g} s", patience.count()));
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    const std::vector<std::string> lines = split(trim(text), '\n');
    return failed(arguments.front(), lines.empty() ? "fails" : "fails: " + lines.back());
  }
  return text;
}

}  // namespace rollcall::doctor

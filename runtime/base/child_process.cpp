#include "runtime/base/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace rollcall {
namespace {

Error cannot_start(const std::string& program, int error_number) {
  return fail(program, "", "cannot be started: " + errno_text(error_number), "checking that it is there",
              ExitCode::Unavailable);
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (const std::string& text : texts) {
    all.push_back(const_cast<char*>(text.c_str()));
  }
  all.push_back(nullptr);
  return all;
}

int spawn(const std::vector<std::string>& command, const Environment& environment, const std::array<int, 2>& ends,
          pid_t& pid) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : environment.variables()) {
    entries.push_back(std::string(name).append("=").append(value));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  const int status = ::posix_spawnp(&pid, command.front().c_str(), &actions, nullptr, pointers(command).data(),
                                    pointers(entries).data());
  posix_spawn_file_actions_destroy(&actions);
  return status;
}

std::string read_all(int file) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0 || errno != EINTR) {
      return text;
    }
  }
}

}  // namespace

Result<ChildOutput> run_and_capture(const std::vector<std::string>& command, const Environment& environment) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return cannot_start(command.front(), errno);
  }
  pid_t pid = 0;
  const int status = spawn(command, environment, ends, pid);
  ::close(ends[1]);
  ChildOutput output;
  if (status == 0) {
    output.text = read_all(ends[0]);
  }
  ::close(ends[0]);
  if (status != 0) {
    return cannot_start(command.front(), status);
  }
  int ended = 0;
  while (::waitpid(pid, &ended, 0) < 0 && errno == EINTR) {
  }
  constexpr int kSignalBase = 128;
  output.exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : kSignalBase + WTERMSIG(ended);
  return output;
}

}  // namespace rollcall

#pragma once

#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/result.h"

/// Several ranks as real processes, for tests; knows no LibTorch (multiproc.h adds it). The ranks are forked, so the
/// test program itself must not have threads. After two minutes a rank is ended by SIGALRM.
namespace rollcall::testing_support {

/// Fails this rank with the place and the condition; use it inside of spawn()'s function, where gtest's macros do not
/// reach.
#define MULTIPROC_CHECK(condition) \
  ((condition) ? void()            \
               : throw std::runtime_error(std::string(__FILE__) + ":" + std::to_string(__LINE__) + ": " #condition))

/// How a rank ended.
struct RankResult {
  int exit_status = -1;  ///< 0: succeeded, 1: failed with `message`; -1: ended by a signal
  int signal = 0;
  std::string message;

  [[nodiscard]] bool succeeded() const { return exit_status == 0; }
};

/// One rank, seen from inside.
struct RankContext {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  std::filesystem::path folder;  ///< shared by the ranks of this group, removed at the end
};

/// The running ranks of one group. Not copyable; kills and reaps what is left when it dies.
class RankProcesses {
 public:
  RankProcesses(std::uint32_t world_size, const std::function<void(const RankContext&)>& work) {
    std::string pattern = std::filesystem::temp_directory_path() / "rollcall-ranks-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    for (std::uint32_t rank = 0; rank < world_size; ++rank) {
      start(RankContext{.rank = rank, .world_size = world_size, .folder = folder_}, work);
    }
  }
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;
  ~RankProcesses() {
    for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
      signal(rank, SIGKILL);
    }
    (void)wait();
    std::filesystem::remove_all(folder_);
  }

  /// Where the ranks may leave files for the test or for each other.
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }

  /// After SIGSTOP none of its threads runs any more.
  void signal(std::uint32_t rank, int number) {
    const pid_t pid = children_.at(rank).pid;
    if (pid > 0 && kill(pid, number) == 0 && number == SIGSTOP) {
      siginfo_t stopped{};
      waitid(P_PID, static_cast<id_t>(pid), &stopped, WSTOPPED | WEXITED | WNOWAIT);
    }
  }

  /// Waits for these ranks alone, so that others may be stopped; results by rank, of the rest without a meaning.
  std::vector<RankResult> wait_for(const std::vector<std::uint32_t>& which) {
    std::vector<RankResult> results(children_.size());
    for (const std::uint32_t rank : which) {
      results[rank] = reap(children_.at(rank));
    }
    return results;
  }

  /// Waits for all ranks; their results by rank.
  const std::vector<RankResult>& wait() {
    for (Child& child : children_) {
      if (child.pid > 0) {
        results_.push_back(reap(child));
      }
    }
    return results_;
  }

 private:
  struct Child {
    pid_t pid = -1;
    int pipe = -1;  ///< carries the message
  };

  void start(const RankContext& place, const std::function<void(const RankContext&)>& work) {
    int ends[2];
    if (pipe(ends) != 0) {
      throw std::runtime_error("pipe: " + errno_text(errno));
    }
    std::fflush(nullptr);
    const pid_t pid = fork();
    if (pid == 0) {
      close(ends[0]);
      run(place, work, ends[1]);
    }
    close(ends[1]);
    children_.push_back(Child{pid, ends[0]});
  }

  [[noreturn]] static void run(const RankContext& place, const std::function<void(const RankContext&)>& work, int out) {
    alarm(120);
    std::signal(SIGPIPE, SIG_IGN);          // as in the trainer: Gloo writes to peers that may have died
    setenv("GLOO_SOCKET_IFNAME", "lo", 0);  // this machine's own name need not resolve
    int status = 0;
    try {
      work(place);
    } catch (const std::exception& error) {
      status = 1;
      const std::string message = error.what();
      [[maybe_unused]] const ssize_t written = write(out, message.data(), std::min<std::size_t>(message.size(), 4000));
    }
    _exit(status);
  }

  static RankResult reap(Child& child) {
    RankResult result;
    char buffer[512];
    for (ssize_t n = 0; (n = read(child.pipe, buffer, sizeof buffer)) > 0;) {
      result.message.append(buffer, static_cast<std::size_t>(n));
    }
    close(child.pipe);
    int status = 0;
    waitpid(child.pid, &status, 0);
    child.pid = -1;
    if (WIFEXITED(status)) {
      result.exit_status = WEXITSTATUS(status);
    } else {
      result.signal = WTERMSIG(status);
    }
    return result;
  }

  std::filesystem::path folder_;
  std::vector<Child> children_;
  std::vector<RankResult> results_;
};

inline bool all_succeeded(const std::vector<RankResult>& results) {
  return std::all_of(results.begin(), results.end(), [](const RankResult& result) { return result.succeeded(); });
}

/// One line per rank that failed.
inline std::string report(const std::vector<RankResult>& results) {
  std::string text;
  for (std::size_t rank = 0; rank < results.size(); ++rank) {
    if (!results[rank].succeeded()) {
      text += "rank " + std::to_string(rank) + ": signal " + std::to_string(results[rank].signal) + ": " +
              results[rank].message + "\n";
    }
  }
  return text;
}

}  // namespace rollcall::testing_support

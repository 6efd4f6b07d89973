#include "runtime/base/first_on_host.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include "tests/support/abstract_socket.h"
#include "tests/support/crowd.h"
#include "tests/support/other_user.h"

namespace rollcall {
namespace {

constexpr uid_t kNobody = 65534;

std::string new_occasion(const std::string& test) { return test + std::to_string(::getpid()); }

/// Calls is_first_on_host in a child process that exits at once.
bool is_first_in_child(const std::string& occasion) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(is_first_on_host(occasion) ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 1;
}

TEST(FirstOnHost, OnlyOneCallerIsFirstWhileTheProcessLives) {
  const std::string occasion = new_occasion("lives");
  EXPECT_TRUE(is_first_on_host(occasion));
  EXPECT_FALSE(is_first_on_host(occasion));
  EXPECT_FALSE(is_first_in_child(occasion));
  EXPECT_TRUE(is_first_in_child(occasion + "x"));
}

TEST(FirstOnHost, NameIsFreeAgainWhenTheFirstProcessExits) {
  const std::string occasion = new_occasion("ends");
  EXPECT_TRUE(is_first_in_child(occasion));
  EXPECT_TRUE(is_first_in_child(occasion));
}

/// Root's socket name.
std::string name_for(const std::string& occasion) { return "rollcall-first-0-" + occasion; }

/// A process of user `nobody` that binds root's socket name for the occasion, until it is killed.
pid_t start_squatter(const std::string& occasion) {
  std::array<int, 2> ready{};
  EXPECT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const AbstractAddress address(name_for(occasion));
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const bool done = ::setuid(kNobody) == 0 && ::bind(descriptor, address.get(), address.length) == 0 &&
                      ::listen(descriptor, 1) == 0;
    if (::write(ready[1], done ? "1" : "0", 1) == 1) {
      ::pause();
    }
    ::_exit(0);
  }
  char done = 0;
  EXPECT_EQ(::read(ready[0], &done, 1), 1);
  EXPECT_EQ(done, '1');
  ::close(ready[0]);
  ::close(ready[1]);
  return child;
}

TEST(FirstOnHost, IgnoresASocketOfAnotherUser) {
  if (!can_become(kNobody)) {
    GTEST_SKIP() << "this process cannot become user " << kNobody;
  }
  const std::string occasion = new_occasion("squatted");
  const pid_t squatter = start_squatter(occasion);
  EXPECT_TRUE(is_first_on_host(occasion));
  ::kill(squatter, SIGKILL);
  ::waitpid(squatter, nullptr, 0);
}

/// The answer that a child process gets.
std::string answer_in_child(const std::string& occasion, const std::string& own_answer) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string answer = ask_once_per_host(occasion, std::chrono::seconds(30), [&] { return own_answer; });
    ::_exit(::write(ends[1], answer.data(), answer.size()) == static_cast<ssize_t>(answer.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::array<char, 100> text{};
  const ssize_t got = ::read(ends[0], text.data(), text.size());
  ::close(ends[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return {text.data(), static_cast<std::size_t>(got)};
}

TEST(AskOncePerHost, OneProcessAsksAndTheOthersGetItsAnswer) {
  const std::string occasion = new_occasion("asks");
  int asked = 0;
  const auto ask = [&] {
    ++asked;
    return std::string("10.78.0.1");
  };
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::seconds(30), ask), "10.78.0.1");
  EXPECT_EQ(answer_in_child(occasion, "another"), "10.78.0.1");
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::seconds(30), ask), "10.78.0.1");
  EXPECT_EQ(asked, 1);
}

/// The signals that each thread of this process blocks, from /proc.
std::map<std::string, std::uint64_t> blocked_signals() {
  std::map<std::string, std::uint64_t> blocked;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(thread.path() / "status");
    for (std::string word; status >> word;) {
      if (word == "SigBlk:") {
        status >> std::hex >> blocked[thread.path().filename().string()];
      }
    }
  }
  return blocked;
}

TEST(AskOncePerHost, AnsweringThreadBlocksSignals) {
  const auto before = blocked_signals();
  EXPECT_EQ(ask_once_per_host(new_occasion("signals"), std::chrono::seconds(30), [] { return "asked"; }), "asked");
  auto others = blocked_signals();
  std::erase_if(others, [&](const auto& thread) { return before.contains(thread.first); });
  ASSERT_EQ(others.size(), 1U);
  for (const int signal : {SIGCHLD, SIGTERM, SIGUSR1, SIGINT}) {
    EXPECT_NE(others.begin()->second >> (signal - 1) & 1U, 0U) << signal;
  }
  sigset_t own;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(::sigismember(&own, SIGCHLD), 0);
}

TEST(AskOncePerHost, EmptyAnswerIsShared) {
  const std::string occasion = new_occasion("empty");
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::seconds(30), [] { return ""; }), "");
  EXPECT_EQ(answer_in_child(occasion, "another"), "");
}

/// Sockets of that name: the one that listens, and each connection to it.
int sockets_named(const std::string& occasion) {
  std::ifstream file("/proc/net/unix");
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    number += line.ends_with(occasion) ? 1 : 0;
  }
  return number;
}

/// Waits until so many sockets have that name. Returns whether they did in time.
bool await_sockets(const std::string& occasion, int number) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (sockets_named(occasion) < number && std::chrono::steady_clock::now() < deadline) {
    ::usleep(1000);
  }
  return sockets_named(occasion) >= number;
}

TEST(AskOncePerHost, AnswerArrivesThoughTheFirstProcessCallsExec) {
  const std::string occasion = new_occasion("becomes");
  const pid_t first = ::fork();
  if (first == 0) {
    (void)ask_once_per_host(occasion, std::chrono::seconds(30),
                            [&] { return await_sockets(occasion, 2) ? "of the first" : "that nobody waits"; });
    ::execlp("true", "true", nullptr);
    ::_exit(1);
  }
  EXPECT_TRUE(await_sockets(occasion, 1));
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::seconds(30), [] { return "of my own"; }), "of the first");
  EXPECT_EQ(::waitpid(first, nullptr, 0), first);
}

/// A process of that user which connects to root's socket and exits with the number of bytes that it gets.
pid_t start_listening_as(uid_t user, const std::string& occasion) {
  const pid_t child = ::fork();
  if (child == 0) {
    const int connection = ::setuid(user) == 0 ? connected_to_abstract(name_for(occasion)) : -1;
    std::array<char, 100> text{};
    const ssize_t got = ::recv(connection, text.data(), text.size(), MSG_WAITALL);
    ::_exit(got < 0 && errno != ECONNRESET ? 255 : static_cast<int>(std::max<ssize_t>(0, got)));
  }
  return child;
}

int bytes_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status);
}

TEST(AskOncePerHost, OtherUsersGetNothingWhetherTheyWaitOrComeLater) {
  if (!can_become(kNobody)) {
    GTEST_SKIP() << "this process cannot become user " << kNobody;
  }
  const std::string occasion = new_occasion("private");
  pid_t waiting = -1;
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::seconds(30),
                              [&] {
                                waiting = start_listening_as(kNobody, occasion);
                                EXPECT_TRUE(await_sockets(occasion, 2));
                                return "10.78.0.1";
                              }),
            "10.78.0.1");
  EXPECT_EQ(bytes_of(waiting), 0);
  EXPECT_EQ(bytes_of(start_listening_as(kNobody, occasion)), 0);
  EXPECT_EQ(bytes_of(start_listening_as(0, occasion)), 10) << "'=' and the answer";
}

TEST(AskOncePerHost, FiveThousandConnectionsOfAnotherUserDoNotBlockAProcessOrUseMuchMemory) {
  if (!can_become(kNobody)) {
    GTEST_SKIP() << "this process cannot become user " << kNobody;
  }
  const std::string occasion = new_occasion("crowded");
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::seconds(30), [] { return "10.78.0.1"; }), "10.78.0.1");
  const std::size_t before = resident_kilobytes();
  const std::ptrdiff_t open_before = open_descriptors();
  const Crowd crowd([&] { return ::setuid(kNobody) == 0 ? connected_to_abstract(name_for(occasion)) : -1; }, 5000);
  EXPECT_TRUE(crowd.await());
  EXPECT_EQ(answer_in_child(occasion, "another"), "10.78.0.1");
  EXPECT_LT(resident_kilobytes(), before + 1024) << "who is no process of this user is disconnected at once";
  EXPECT_LT(open_descriptors(), open_before + 10);
}

TEST(AskOncePerHost, AsksItselfWhenNoAnswerArrives) {
  const std::string occasion = new_occasion("silent");
  ASSERT_TRUE(is_first_on_host(occasion));  // has the name, and never tells
  EXPECT_EQ(ask_once_per_host(occasion, std::chrono::milliseconds(10), [] { return "asked"; }), "asked");
  EXPECT_EQ(answer_in_child(new_occasion("gone"), "first"), "first");
  EXPECT_EQ(answer_in_child(new_occasion("gone"), "second"), "second");  // the first has ended
}

}  // namespace
}  // namespace rollcall

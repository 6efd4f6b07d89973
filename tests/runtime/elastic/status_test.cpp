#include "runtime/elastic/status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <fstream>
#include <future>
#include <string>
#include <vector>

#include "tests/support/abstract_socket.h"
#include "tests/support/crowd.h"
#include "tests/support/other_user.h"

namespace rollcall::elastic {
namespace {

using rendezvous::Clock;
using testing::Contains;

constexpr uid_t kAnotherUser = 4711;

/// The name of this process's socket.
std::string status_name() {
  std::ifstream table("/proc/net/unix");
  const std::string beginning = fmt::format("@rollcall-run/{}/{}-", getuid(), getpid());
  for (std::string line; std::getline(table, line);) {
    if (const std::size_t at = line.find(beginning); at != line.npos) {
      return line.substr(at + 1);
    }
  }
  return "";
}

/// An agent of this process, in a loop that the test turns. Anybody on this host may ask it beside the test.
class StatusServer : public testing::Test {
 protected:
  void SetUp() override {
    if (!can_become(kAnotherUser)) {
      GTEST_SKIP() << "this process cannot become user " << kAnotherUser;
    }
  }

  void turn() { loop_.wait(Clock::now() + std::chrono::milliseconds(20)); }
  /// What ask_agents() returns while the agent lives on.
  Answers asked() {
    std::future<Answers> answers = std::async(std::launch::async, ask_agents);
    while (answers.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      turn();
    }
    return answers.get();
  }
  /// Forks a process of another user that calls `act` and ends with its result.
  template <typename Act>
  static pid_t start_another_user(const Act& act) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(setuid(kAnotherUser) == 0 ? act() : 255);
    }
    return child;
  }

  EventLoop loop_;
  const std::string own_ = fmt::format(R"({{"pid":{}}})", getpid());
  const elastic::StatusServer server_{loop_, [this] { return own_; }};
  const std::string name_ = status_name();
};

TEST_F(StatusServer, FiveThousandConnectionsOfAnotherUserDoNotBlockItsUserOrUseMuchMemory) {
  const std::size_t before = resident_kilobytes();
  const std::ptrdiff_t open_before = open_descriptors();
  const Crowd crowd([&] { return setuid(kAnotherUser) == 0 ? connected_to_abstract(name_) : -1; }, 5000);
  EXPECT_TRUE(crowd.await([&] { turn(); }));
  EXPECT_THAT(asked().texts, Contains(own_));
  EXPECT_LT(resident_kilobytes(), before + 1024);
  EXPECT_LT(open_descriptors(), open_before + 10);
}

TEST_F(StatusServer, AnotherUserGetsNothing) {
  const pid_t stranger = start_another_user([&] {
    std::array<char, 100> text{};
    const ssize_t got = read(connected_to_abstract(name_), text.data(), text.size());
    return got < 0 && errno != ECONNRESET ? 254 : static_cast<int>(std::max<ssize_t>(0, got));
  });
  int status = -1;
  for (const auto end = Clock::now() + std::chrono::seconds(30); waitpid(stranger, &status, WNOHANG) == 0;) {
    ASSERT_LT(Clock::now(), end);
    turn();
  }
  EXPECT_EQ(status, 0) << "its end is the number of bytes";
}

TEST_F(StatusServer, NamesThatAnotherUserHasTakenUseNoDescriptors) {
  std::array<int, 2> told{};
  ASSERT_EQ(pipe(told.data()), 0);
  const std::string like_its_own = fmt::format("rollcall-run/{}/", getuid());
  const pid_t stranger = start_another_user([&] {
    for (int i = 0; i < 300; ++i) {
      const AbstractAddress address(like_its_own + std::to_string(i));
      const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
      (void)!(bind(descriptor, address.get(), address.length) == 0 && listen(descriptor, 8) == 0);
    }
    (void)!write(told[1], "1", 1);
    pause();
    return 0;
  });
  char all_are_taken = 0;
  EXPECT_EQ(read(told[0], &all_are_taken, 1), 1);
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{static_cast<rlim_t>(open_descriptors()) + 40, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &few);
  const Answers answers = asked();
  setrlimit(RLIMIT_NOFILE, &before);
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
  close(told[0]);
  close(told[1]);
  EXPECT_THAT(answers.texts, Contains(own_));
}

TEST_F(StatusServer, AnAgentThatDoesNotAnswerIsReported) {
  const Answers answers = ask_agents();
  EXPECT_GE(answers.silent, 1U);
  EXPECT_THAT(status_text(answers), testing::HasSubstr("did not answer within 1 s, stopped or asked by too many"));
}

/// Whether nobody can connect to that name now without waiting.
bool is_full(const std::string& name) {
  const AbstractAddress address(name);
  const int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool full = connect(descriptor, address.get(), address.length) != 0 && errno == EAGAIN;
  close(descriptor);
  return full;
}

TEST_F(StatusServer, StrangersWhoComeAllTheTimeDoNotKeepItsUserFromAnAnswer) {
  std::vector<pid_t> strangers;
  while (strangers.size() < 4) {
    strangers.push_back(start_another_user([&] {
      while (true) {
        close(connected_to_abstract(name_));
      }
      return 0;
    }));
  }
  for (const auto end = Clock::now() + std::chrono::seconds(30); !is_full(name_) && Clock::now() < end;) {
    usleep(1000);
  }
  EXPECT_TRUE(is_full(name_)) << "strangers fill the queue";
  EXPECT_GE(ask_agents().silent, 1U) << "the agent does something else";
  Answers answers = asked();
  for (const auto end = Clock::now() + std::chrono::seconds(30);
       std::ranges::count(answers.texts, own_) == 0 && Clock::now() < end;) {
    answers = asked();  // on a host that is busy with more than strangers
  }
  EXPECT_THAT(answers.texts, Contains(own_));
  for (const pid_t stranger : strangers) {
    kill(stranger, SIGKILL);
    waitpid(stranger, nullptr, 0);
  }
}

}  // namespace
}  // namespace rollcall::elastic

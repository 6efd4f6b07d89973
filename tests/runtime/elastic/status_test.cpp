#include "runtime/elastic/status.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <future>
#include <string>

#include "tests/support/abstract_socket.h"
#include "tests/support/crowd.h"

namespace rollcall::elastic {
namespace {

using rendezvous::Clock;

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

TEST(StatusServer, FiveThousandConnectionsOfAnotherUserDoNotBlockItsUserOrUseMuchMemory) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can be another user";
  }
  EventLoop loop;
  const std::string own = fmt::format(R"({{"pid":{}}})", getpid());
  int asked = 0;
  const StatusServer server(loop, [&] {
    ++asked;
    return own;
  });
  const auto turn = [&] { loop.wait(Clock::now() + std::chrono::milliseconds(20)); };
  const std::size_t before = resident_kilobytes();
  const Crowd crowd(
      [name = status_name()] {
        (void)!setuid(4711);
        return connected_to_abstract(name);
      },
      5000);
  crowd.await(turn);
  for (int waiting = 0; waiting < 100; ++waiting) {
    loop.wait(Clock::now());
  }
  EXPECT_EQ(asked, 0) << "nobody else is worth an answer";
  std::future<std::vector<std::string>> answers = std::async(std::launch::async, ask_agents);
  while (answers.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    turn();
  }
  EXPECT_THAT(answers.get(), testing::Contains(own));
  EXPECT_EQ(asked, 1);
  EXPECT_LT(resident_kilobytes(), before + 1024);
}

}  // namespace
}  // namespace rollcall::elastic

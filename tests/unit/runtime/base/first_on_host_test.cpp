#include "runtime/base/this_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>

namespace rollcall {
namespace {

std::string new_occasion(const std::string& test) { return test + std::to_string(::getpid()); }

/// Asks in a process of its own, which ends at once.
bool is_first_in_child(const std::string& occasion) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(is_first_on_host(occasion) ? 1 : 0);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WEXITSTATUS(status) == 1;
}

TEST(FirstOnHost, IsOneOfAllThatAskWhileItLives) {
  const std::string occasion = new_occasion("lives");
  EXPECT_TRUE(is_first_on_host(occasion));
  EXPECT_FALSE(is_first_on_host(occasion));
  EXPECT_FALSE(is_first_in_child(occasion));
  EXPECT_TRUE(is_first_in_child(occasion + "x"));
}

TEST(FirstOnHost, LeavesNothingBehind) {
  const std::string occasion = new_occasion("ends");
  EXPECT_TRUE(is_first_in_child(occasion));
  EXPECT_TRUE(is_first_in_child(occasion));
}

/// A process of user `nobody` that has the socket of root's name for the occasion, until it is ended.
pid_t start_squatter(const std::string& occasion) {
  constexpr uid_t kNobody = 65534;
  std::array<int, 2> ready{};
  EXPECT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string name = "rollcall-first-0-" + occasion;
    sockaddr_un place{};
    place.sun_family = AF_UNIX;
    std::memcpy(place.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int descriptor = ::socket(AF_UNIX, SOCK_STREAM, 0);
    const bool done = ::setuid(kNobody) == 0 && ::bind(descriptor, reinterpret_cast<sockaddr*>(&place), length) == 0 &&
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

TEST(FirstOnHost, AnotherUsersSocketSilencesNobody) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can become somebody else";
  }
  const std::string occasion = new_occasion("squatted");
  const pid_t squatter = start_squatter(occasion);
  EXPECT_TRUE(is_first_on_host(occasion));
  ::kill(squatter, SIGKILL);
  ::waitpid(squatter, nullptr, 0);
}

}  // namespace
}  // namespace rollcall

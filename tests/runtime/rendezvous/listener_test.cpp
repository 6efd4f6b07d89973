#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {
namespace {

using testing::StartsWith;

TEST(Listener, AcceptsIpv4AndIpv6OnAnEphemeralPort) {
  const auto listener = Listener::on_all_addresses(0);
  ASSERT_TRUE(listener) << listener.error().message();
  EXPECT_NE(listener->port(), 0);
  const auto connects = [&](const char* host) {
    const Endpoint endpoint{host, listener->port()};
    return Socket(connect_once(endpoint, Clock::now() + std::chrono::seconds(5)).descriptor).is_open();
  };
  EXPECT_TRUE(connects("127.0.0.1"));
  std::ifstream ipv6_addresses("/proc/net/if_inet6");
  if (std::string first; std::getline(ipv6_addresses, first)) {
    EXPECT_TRUE(connects("::1"));
  }
}

TEST(Listener, PortInUseIsAnErrorThatNamesThePort) {
  const auto first = Listener::on_all_addresses(0);
  const auto second = Listener::on_all_addresses(first->port());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().kind, ErrorKind::Unavailable);
  EXPECT_THAT(second.error().message(),
              StartsWith("rollcall: MASTER_PORT: " + std::to_string(first->port()) + ": is in use on "));
}

TEST(Listener, ClosesItsSocketOnceAlsoAfterAMove) {
  int moved_to = -1;
  std::uint16_t port = 0;
  {
    auto listener = Listener::on_all_addresses(0);
    Listener moved = std::move(*listener);
    EXPECT_EQ(listener->descriptor(), -1);
    port = moved.port();
    moved_to = moved.descriptor();
    EXPECT_NE(fcntl(moved_to, F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_FALSE(Listener::on_all_addresses(port));
  }
  EXPECT_EQ(fcntl(moved_to, F_GETFD), -1);
  int closed = -1;
  {
    const auto listener = Listener::on_all_addresses(port);
    ASSERT_TRUE(listener) << listener.error().message();
    closed = listener->descriptor();
  }
  EXPECT_EQ(fcntl(closed, F_GETFD), -1);
}

}  // namespace
}  // namespace rollcall::rendezvous

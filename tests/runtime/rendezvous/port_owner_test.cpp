#include "runtime/rendezvous/port_owner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#include "runtime/rendezvous/connect.h"
#include "runtime/rendezvous/listener.h"
#include "runtime/rendezvous/socket.h"

namespace rollcall::rendezvous {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr const char* kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 00000000:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 5 1 0 100 0 0 10 0\n"
    "   1: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 6 1 0 100 0 0 10 0\n"
    "   2: 0100007F:733C 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 7 1 0 100 0 0 10 0\n"
    "   3: 0100007F:733D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1004        0 9 1 0 100 0 0 10 0\n"
    "   4: 0100007F:733C 0100007F:A2B0 01 00000000:00000000 00:00000000 00000000  1003        0 8 1 0 20 4 30 10 -1\n"
    "   5: 0100007F";

TEST(PortOwner, IsTheListeningUserAndNotAConnectedOne) {
  const auto users = [](const std::string& text, std::uint16_t port) {
    std::istringstream table(text);
    return listening_users(table, port);
  };
  EXPECT_THAT(users(kTable, 0x733c), ElementsAre(1001U, 1002U));
  EXPECT_THAT(users(kTable, 0x733d), ElementsAre(1004U));
  EXPECT_THAT(users(kTable, 80), IsEmpty());
  EXPECT_THAT(users("", 80), IsEmpty());
}

TEST(PortOwner, IsThisUserForASocketOfItsOwn) {
  const auto own = Listener::on_all_addresses(0);
  ASSERT_TRUE(own);
  EXPECT_THAT(listening_users(own->port()), ElementsAre(geteuid()));
  EXPECT_EQ(listener_text(own->port()), "a process of user " + std::to_string(geteuid()));
  const Socket socket(connect_once({"127.0.0.1", own->port()}, Clock::now() + std::chrono::seconds(30)).descriptor);
  EXPECT_EQ(foreign_listener(socket.descriptor()), "");
}

TEST(PortOwner, FindsTheAcceptingUserAfterTheListenerIsClosed) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can listen as another user";
  }
  constexpr uid_t kNobody = 65'534;
  for (const uid_t user : {kNobody, geteuid()}) {
    for (const char* const address : {"127.0.0.1", "127.0.1.1", "::1"}) {
      ASSERT_EQ(seteuid(user), 0);
      std::optional<Listener> others;
      if (Result<Listener> made = Listener::on_all_addresses(0)) {
        others = *std::move(made);
      }
      const std::uint16_t port = others ? others->port() : std::uint16_t{0};
      const Socket socket(connect_once({address, port}, Clock::now() + std::chrono::seconds(30)).descriptor);
      const int accepted = others && socket.is_open() ? accept(others->descriptor(), nullptr, nullptr) : -1;
      others.reset();
      ASSERT_EQ(seteuid(0), 0);
      if (!socket.is_open() && std::string_view(address) == "::1") {
        continue;  // a host without IPv6
      }
      ASSERT_GE(accepted, 0) << address;
      EXPECT_THAT(listening_users(port), IsEmpty());
      EXPECT_EQ(foreign_listener(socket.descriptor()), user == kNobody ? "a process of user 65534 answers there" : "")
          << address;
      close(accepted);
      EXPECT_EQ(foreign_listener(socket.descriptor()), "a process that has ended answers there") << address;
    }
  }
}

TEST(PortOwner, FindsTheConnectingUser) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can connect as another user";
  }
  constexpr uid_t kNobody = 65'534;
  const auto own = Listener::on_all_addresses(0);
  ASSERT_TRUE(own);
  for (const uid_t user : {kNobody, geteuid()}) {
    for (const char* const address : {"127.0.0.1", "127.0.1.1", "::1"}) {
      ASSERT_EQ(seteuid(user), 0);
      Socket other(connect_once({address, own->port()}, Clock::now() + std::chrono::seconds(30)).descriptor);
      ASSERT_EQ(seteuid(0), 0);
      if (!other.is_open() && std::string_view(address) == "::1") {
        continue;  // a host without IPv6
      }
      const Socket accepted(accept(own->descriptor(), nullptr, nullptr));
      EXPECT_EQ(foreign_client(accepted.descriptor()), user == kNobody ? "a process of user 65534" : "") << address;
      other = Socket();
      EXPECT_EQ(foreign_client(accepted.descriptor()), "a process that has ended") << address;
    }
  }
}

/// A non-loopback address of this host.
std::optional<in_addr> other_address() {
  ifaddrs* all = nullptr;
  std::optional<in_addr> found;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr && !found; one = one->ifa_next) {
      if (one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET && (one->ifa_flags & IFF_LOOPBACK) == 0) {
        found = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr;
      }
    }
    freeifaddrs(all);
  }
  return found;
}

Socket connect_from(in_addr source, in_addr target, std::uint16_t port) {
  const int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in from{.sin_family = AF_INET, .sin_port = 0, .sin_addr = source, .sin_zero = {}};
  const sockaddr_in to{.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = target, .sin_zero = {}};
  EXPECT_EQ(bind(made, reinterpret_cast<const sockaddr*>(&from), sizeof from), 0);
  EXPECT_EQ(connect(made, reinterpret_cast<const sockaddr*>(&to), sizeof to), 0);
  return Socket(made);  // which waits for nothing from here on
}

TEST(PortOwner, FindsTheUserBehindAnotherAddressOfTheHost) {
  const std::optional<in_addr> address = other_address();
  const in_addr loopback{htonl(INADDR_LOOPBACK)};
  if (geteuid() != 0 || !address) {
    GTEST_SKIP() << "only root can connect as another user, and from another address where the host has one";
  }
  constexpr uid_t kNobody = 65'534;
  for (const uid_t user : {kNobody, geteuid()}) {
    const bool is_other = user == kNobody;
    ASSERT_EQ(seteuid(user), 0);
    const auto theirs = Listener::on_all_addresses(0);
    ASSERT_EQ(seteuid(0), 0);
    const auto own = Listener::on_all_addresses(0);
    ASSERT_TRUE(own && theirs);
    ASSERT_EQ(seteuid(user), 0);
    Socket other = connect_from(*address, loopback, own->port());
    ASSERT_EQ(seteuid(0), 0);
    const Socket accepted(accept(own->descriptor(), nullptr, nullptr));
    EXPECT_EQ(foreign_client(accepted.descriptor()), is_other ? "a process of user 65534" : "");
    other = Socket();
    EXPECT_EQ(foreign_client(accepted.descriptor()), "a process that has ended");
    const Socket to_theirs = connect_from(loopback, *address, theirs->port());
    EXPECT_EQ(foreign_listener(to_theirs.descriptor()), is_other ? "a process of user 65534 listens there" : "");
  }
}

TEST(PortOwner, DetectsAListenerOfAnotherUserAtAnyLoopbackAddress) {
  if (geteuid() != 0) {
    GTEST_SKIP() << "only root can listen as another user";
  }
  constexpr uid_t kNobody = 65'534;
  ASSERT_EQ(seteuid(kNobody), 0);
  const auto others = Listener::on_all_addresses(0);
  ASSERT_EQ(seteuid(0), 0);
  ASSERT_TRUE(others);
  for (const char* const address : {"127.0.0.1", "127.0.1.1"}) {  // Debian's for a host's own name
    const Socket socket(connect_once({address, others->port()}, Clock::now() + std::chrono::seconds(30)).descriptor);
    EXPECT_EQ(foreign_listener(socket.descriptor()), "a process of user 65534 listens there") << address;
  }
}

}  // namespace
}  // namespace rollcall::rendezvous

#include "runtime/network/network_view.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rollcall::network {
namespace {

TEST(Ports, ParsesPortListsOfSlurmAndTheKernel) {
  const auto ranges = parse_port_list("17500-17503,17600");
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->size(), 2U);
  EXPECT_EQ(ranges->at(0).size(), 4U);
  EXPECT_TRUE(ranges->at(1).contains(17600));
  EXPECT_TRUE(parse_port_list("")->empty());
  for (const char* text : {"abc", "0-3", "17500x", "99999", ",", "5-4", "1-2-3", "1 2"}) {
    EXPECT_FALSE(parse_port_list(text)) << text;
  }
}

TEST(Ports, ReservedPortsAreNotEphemeral) {
  const EphemeralPorts ports{{1024, 65535}, {{8080, 8080}, {20000, 29999}}};
  for (const int kept : {1, 1023, 8080, 20000, 29999}) {
    EXPECT_FALSE(ports.contains(static_cast<std::uint16_t>(kept))) << kept;
  }
  for (const int given : {1024, 8079, 8081, 19999, 30000, 65535}) {
    EXPECT_TRUE(ports.contains(static_cast<std::uint16_t>(given))) << given;
  }
}

TEST(Ports, EphemeralPortsContainAPortThatTheKernelAssigns) {
  const int descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  socklen_t length = sizeof any;
  ASSERT_EQ(bind(descriptor, reinterpret_cast<const sockaddr*>(&any), sizeof any), 0);
  ASSERT_EQ(getsockname(descriptor, reinterpret_cast<sockaddr*>(&any), &length), 0);
  EXPECT_TRUE(ephemeral_ports().contains(ntohs(any.sin_port)));
  close(descriptor);
}

}  // namespace
}  // namespace rollcall::network

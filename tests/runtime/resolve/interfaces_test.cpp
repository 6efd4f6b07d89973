#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/resolve_step.h"

namespace rollcall::resolve {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

network::Interface& interface_of(Step& step, std::string_view name) {
  return *std::ranges::find(step.network.interfaces, name, &network::Interface::name);
}

TEST(ResolveNetwork, ALoopbackRouteIsNotTakenAcrossNodes) {
  Step step;
  step.network.route_interface = "lo";
  EXPECT_EQ(step.after().get("GLOO_SOCKET_IFNAME"), std::nullopt);
  EXPECT_EQ(step.after().get("NCCL_SOCKET_IFNAME"), std::nullopt);
  step.set("host.loopback", "allow");
  EXPECT_EQ(step.after().get("GLOO_SOCKET_IFNAME"), "lo");
  step.set("host.loopback", "refuse");
  step.facts.num_nodes = 1;
  EXPECT_EQ(step.after().get("GLOO_SOCKET_IFNAME"), "lo");
}

TEST(ResolveNetwork, AConfiguredLoopbackInterfaceIsRefusedAcrossNodes) {
  for (const char* setting : {"interface.gloo", "interface.nccl"}) {
    Step step;
    step.set(setting, "lo");
    const auto patch = step.run();
    ASSERT_FALSE(patch) << setting;
    EXPECT_EQ(patch.error().kind, ErrorKind::Unavailable);
    EXPECT_THAT(patch.error().action, AllOf(HasSubstr("eth0"), testing::Not(HasSubstr("lo,"))));
  }
}

TEST(ResolveNetwork, TheUsersLoopbackInterfaceIsKeptWithAWarning) {
  Step step;
  step.user.set("GLOO_SOCKET_IFNAME", "lo");
  const auto patch = step.run();
  ASSERT_TRUE(patch);
  EXPECT_EQ(patch->find("GLOO_SOCKET_IFNAME")->action, Action::Keep);
  EXPECT_THAT(patch->warnings, Contains(HasSubstr("GLOO_SOCKET_IFNAME: lo: is the loopback interface")));
}

TEST(ResolveNetwork, SkipsInterfacesWithOnlyALinkLocalAddress) {
  Step step;
  step.set("interface.gloo", "ib0,eth0");
  interface_of(step, "ib0").addresses = {{"fe80::1", false, false, true}};
  EXPECT_EQ(step.after().get("GLOO_SOCKET_IFNAME"), "eth0");
  step.set("interface.gloo", "ib0");
  const auto patch = step.run();
  ASSERT_FALSE(patch);
  EXPECT_THAT(patch.error().message(), HasSubstr("ib0 (without an address)"));
}

TEST(ResolveNetwork, NcclAcceptsInterfacePrefixesAndGlooDoesNot) {
  Step step;
  step.set("interface.nccl", "ib");
  EXPECT_EQ(step.after().get("NCCL_SOCKET_IFNAME"), "ib");
  step.set("interface.nccl", "hsn");
  EXPECT_FALSE(step.run());
  step.set("interface.nccl", "auto");
  step.set("interface.gloo", "ib");
  EXPECT_FALSE(step.run());
}

TEST(ResolveNetwork, MissingInterfaceIsAnErrorOfThatNodeForAnyOrigin) {
  for (const char* const origin : {"/etc/rollcall/site.toml", "--ddp", "ROLLCALL_INTERFACE_GLOO"}) {
    Step step;
    ASSERT_TRUE(step.settings.set("interface.gloo", "hsn0", origin));
    const auto patch = step.run();
    ASSERT_FALSE(patch);
    EXPECT_TRUE(patch.error().of_this_node) << origin;
  }
}

TEST(ResolveNetwork, TensorPipeUsesTheInterfaceOfGloo) {
  Step step;
  step.set("interface.gloo", "hsn0,ib0");
  EXPECT_EQ(step.after().get("TP_SOCKET_IFNAME"), "ib0");
  EXPECT_EQ(step.after().get("GLOO_SOCKET_IFNAME"), "ib0");
}

}  // namespace
}  // namespace rollcall::resolve

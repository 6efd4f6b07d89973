#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "runtime/network/choose_interface.h"
#include "runtime/network/network_view.h"

namespace rollcall::network {
namespace {

NetworkView juelich() {
  NetworkView view;
  view.host_name = "jwb0002";
  view.interfaces = {{"lo", true, true, {{"127.0.0.1", true, true, false}}},
                     {"eth0", true, false, {{"10.77.0.2", true, false, false}}},
                     {"ib0", true, false, {{"10.78.0.2", true, false, false}}},
                     {"ib1", false, false, {}}};
  view.route_interface = "ib0";
  return view;
}

TEST(ChooseInterface, AutoSelectsTheInterfaceOfTheRoute) {
  EXPECT_EQ(choose_interface("interface.gloo", {"auto"}, juelich())->value, "ib0");
  NetworkView unknown = juelich();
  unknown.route_interface.reset();
  EXPECT_EQ(choose_interface("interface.gloo", {"auto"}, unknown)->value, "");
  EXPECT_EQ(choose_interface("interface.gloo", {"none"}, juelich())->value, "");
}

TEST(ChooseInterface, SelectsTheFirstConfiguredInterfaceThatIsUp) {
  EXPECT_EQ(choose_interface("interface.gloo", {"eno2np0", "eth0", "ib0"}, juelich())->value, "eth0");
  EXPECT_EQ(choose_interface("interface.gloo", {"ib1", "ib0"}, juelich())->value, "ib0");
  NetworkView view = juelich();
  view.interfaces.back().addresses = {{"10.78.1.2", true, false, false}};  // kept while the link is down
  EXPECT_EQ(choose_interface("interface.gloo", {"ib1", "ib0"}, view)->value, "ib0");
}

TEST(ChooseInterface, AcceptsAnInterfaceWithAnAdditionalLinkLocalAddress) {
  NetworkView view = juelich();
  view.interfaces[2].addresses.push_back({"fe80::2", false, false, true});
  EXPECT_EQ(choose_interface("interface.gloo", {"ib0"}, view)->value, "ib0");
  EXPECT_EQ(choose_interface_prefixes("interface.nccl", {"ib"}, view)->value, "ib");
}

TEST(ChooseInterface, GlooTakesConcreteNamesNcclPrefixes) {
  EXPECT_FALSE(choose_interface("interface.gloo", {"ib"}, juelich()));
  EXPECT_EQ(choose_interface_prefixes("interface.nccl", {"hsn", "ib"}, juelich())->value, "hsn,ib");
  EXPECT_EQ(choose_interface_prefixes("interface.nccl", {"=ib0"}, juelich())->value, "=ib0");
  EXPECT_EQ(choose_interface_prefixes("interface.nccl", {"^lo", "docker"}, juelich())->value, "^lo,docker");
  EXPECT_FALSE(choose_interface_prefixes("interface.nccl", {"hsn"}, juelich()));
}

TEST(ChooseInterface, ErrorListsTheAvailableInterfaces) {
  const auto choice = choose_interface("interface.gloo", {"hsn0", "ib1"}, juelich());
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().kind, ErrorKind::Unavailable);
  EXPECT_EQ(choice.error().message(),
            "rollcall: interface.gloo: hsn0,ib1: is not an interface that is up on jwb0002; try choosing one of lo, "
            "eth0, ib0, ib1 "
            "(down)");
}

}  // namespace
}  // namespace rollcall::network

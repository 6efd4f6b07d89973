#include "runtime/resolve/master_endpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace rollcall::resolve {
namespace {

using network::Address;
using network::ResolvedName;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const Address kInfiniBand{"10.78.0.1", true, false, false};
const Address kIpv6{"fd00::1", false, false, false};
const Address kLinkLocal{"fe80::1", false, false, true};
const Address kLoopback{"127.0.1.1", true, true, false};

/// Rank 1, on the second of two nodes.
job::JobFacts two_nodes() {
  job::JobFacts facts;
  facts.rank = 1;
  facts.head_host = "jwb0001";
  facts.this_host = "jwb0002";
  facts.num_nodes = 2;
  return facts;
}

Result<MasterAddressChoice> choose(const job::JobFacts& facts, std::vector<ResolvedName> names,
                                   bool loopback_allowed = false) {
  network::NetworkView network;
  network.head_names = std::move(names);
  return choose_master_address(facts, network, loopback_allowed);
}

ResolvedName found(const char* name, std::vector<Address> addresses) { return {name, std::move(addresses), ""}; }
ResolvedName unknown(const char* name) { return {name, {}, "Name or service not known"}; }

TEST(MasterAddress, IsTheTemplatedNameWhereItResolves) {
  const auto choice = choose(two_nodes(), {found("jwb0001i", {kInfiniBand})});
  EXPECT_EQ(choice->value, "jwb0001i");
  EXPECT_THAT(choice->reason, HasSubstr("rank 0 is on jwb0001"));
  EXPECT_THAT(choice->reason, HasSubstr("10.78.0.1"));
  EXPECT_THAT(choice->warnings, IsEmpty());
}

TEST(MasterAddress, FallsBackToThePlainNameWithAWarning) {
  const auto choice = choose(two_nodes(), {unknown("jwb0001i"), found("jwb0001", {kInfiniBand})});
  EXPECT_EQ(choice->value, "jwb0001");
  EXPECT_THAT(choice->warnings, ElementsAre("host.template: jwb0001i: does not resolve on jwb0002 (Name or service not "
                                            "known); jwb0001 is used instead"));
}

TEST(MasterAddress, LoopbackIsRefusedAcrossNodes) {
  const auto choice = choose(two_nodes(), {found("jwb0001", {kLoopback})});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().kind, ErrorKind::Unavailable);
  EXPECT_EQ(choice.error().setting, "host.template");
  EXPECT_THAT(choice.error().reason, HasSubstr("loopback only (127.0.1.1) on jwb0002"));
  EXPECT_TRUE(choice.error().of_this_node);
  EXPECT_THAT(choice.error().action, HasSubstr("--host-loopback=allow"));
}

TEST(MasterAddress, LoopbackIsAcceptedOnOneNodeOnTheHeadAndWhenAllowed) {
  for (const int which : {0, 1, 2}) {
    job::JobFacts facts = two_nodes();
    facts.num_nodes = which == 0 ? 1 : 2;
    facts.rank = which == 1 ? 0 : 1;
    EXPECT_EQ(choose(facts, {found("jwb0001", {kLoopback})}, which == 2)->value, "jwb0001") << which;
  }
}

TEST(MasterAddress, LinkLocalIsNeverUsed) {
  const auto refused = choose(two_nodes(), {found("jwb0001", {kLinkLocal})}, true);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().reason, HasSubstr("link-local"));
  const auto mixed = choose(two_nodes(), {found("jwb0001", {kLinkLocal, kIpv6})}, true);
  EXPECT_EQ(mixed->value, "fd00::1");
}

TEST(MasterAddress, NameWithAnUnusableAddressIsReplacedByItsUsableAddress) {
  const auto choice = choose(two_nodes(), {found("jwb0001", {kLoopback, kInfiniBand})});
  EXPECT_EQ(choice->value, "10.78.0.1");
}

TEST(MasterAddress, NameWithIpv4AndIpv6IsReplacedByItsIpv4Address) {
  const auto choice = choose(two_nodes(), {found("jwb0001", {kInfiniBand, kIpv6})});
  EXPECT_EQ(choice->value, "10.78.0.1");
  EXPECT_THAT(choice->warnings, IsEmpty());
  EXPECT_EQ(choose(two_nodes(), {found("jwb0001", {kIpv6})})->value, "jwb0001");
  const Address ipv6_loopback{"::1", false, true, false};
  EXPECT_EQ(choose(two_nodes(), {found("localhost", {kLoopback, ipv6_loopback})}, true)->value, "localhost");
}

TEST(MasterAddress, ErrorListsAllNamesWhenNoneResolves) {
  const auto choice = choose(two_nodes(), {unknown("jwb0001i"), unknown("jwb0001")});
  ASSERT_FALSE(choice);
  const std::string message = choice.error().message();
  EXPECT_THAT(message, testing::StartsWith("rollcall: host.template: jwb0001i: does not resolve on jwb0002"));
  EXPECT_THAT(message, HasSubstr("and jwb0001 does not resolve"));
  EXPECT_THAT(message, HasSubstr("; try "));
  EXPECT_FALSE(choose(two_nodes(), {}));
}

TEST(MasterAddress, OneNodeWhoseNameDoesNotResolveUsesLoopbackWithAWarning) {
  job::JobFacts facts = two_nodes();
  facts.num_nodes = 1;
  const auto choice = choose(facts, {unknown("jwb0001")});
  EXPECT_EQ(choice->value, "127.0.0.1");
  EXPECT_EQ(choice->warnings.size(), 1U);
}

}  // namespace
}  // namespace rollcall::resolve

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "runtime/base/environment.h"
#include "runtime/network/network_view.h"
#include "tests/support/temporary_folder.h"

namespace rollcall::network {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(HostName, CandidatesAreTheTemplatedNameThenThePlainOne) {
  EXPECT_THAT(candidate_names("{host}i", "jwb0001"), ElementsAre("jwb0001i", "jwb0001"));
  EXPECT_THAT(candidate_names("{host}", "jwb0001"), ElementsAre("jwb0001"));
  EXPECT_THAT(candidate_names("ib-{host}.{host}.x", "n1"), ElementsAre("ib-n1.n1.x", "n1"));
  EXPECT_THAT(candidate_names("localhost", "n1"), ElementsAre("localhost", "n1"));
  EXPECT_THAT(candidate_names("", "n1"), ElementsAre("n1"));
  EXPECT_THAT(candidate_names("{host}i", ""), IsEmpty());
  EXPECT_THAT(candidate_names("{host}-{host}", "{host}"), ElementsAre("{host}-{host}", "{host}"));
}

TEST(HostName, NodeaddrTemplateAsksSlurmForTheAddress) {
  const std::vector<std::string> names = candidate_names(kNodeAddressTemplate, "cloud-1");
  ASSERT_THAT(names, ElementsAre("nodeaddr:cloud-1", "cloud-1"));
  const AskNodeAddress slurm = [](const std::string& node) -> Result<std::string> {
    return node == "cloud-1" ? Result<std::string>("10.78.0.1") : fail("", node, "is unknown", "");
  };
  const ResolvedName known = resolve_name_by(slurm, names.front());
  EXPECT_EQ(known.name, "nodeaddr:cloud-1");  // by which other tasks of the node find the answer
  EXPECT_EQ(name_for_programs(known), "10.78.0.1");
  const ResolvedName unknown = resolve_name_by(slurm, "nodeaddr:cloud-2");
  EXPECT_THAT(unknown.addresses, IsEmpty());
  EXPECT_EQ(unknown.error, "Slurm has no address for this node: is unknown");
  EXPECT_EQ(name_for_programs(resolve_name_by(slurm, "127.0.0.1")), "127.0.0.1");
}

/// The result of resolve_name() in a process of that step, with this script as scontrol.
ResolvedName resolved_in_step(const test::TemporaryFolder& folder, const std::string& job, const std::string& step) {
  const std::map<std::string, std::string> values{
      {"PATH", folder.path() + ":/usr/bin:/bin"}, {"SLURM_JOB_ID", job}, {"SLURM_STEP_ID", step}};
  std::map<std::string, std::optional<std::string>> before;
  for (const auto& [name, value] : values) {
    before[name] = Environment::of_this_process().get(name);
    ::setenv(name.c_str(), value.c_str(), 1);
  }
  ResolvedName resolved = resolve_name("nodeaddr:cloud-1");
  for (const auto& [name, value] : before) {
    value ? ::setenv(name.c_str(), value->c_str(), 1) : ::unsetenv(name.c_str());
  }
  return resolved;
}

/// Its first call fails, and each further one answers 127.0.0.2, 127.0.0.3 and so on.
void put_scontrol(const test::TemporaryFolder& folder) {
  const std::string script = folder.file("scontrol");
  std::ofstream(script) << "#!/bin/sh\ncd " << folder.path()
                        << "\necho call >> calls\nnumber=$(wc -l < calls)\n[ $number -gt 1 ] || exit 1\n"
                           "echo \"NodeName=cloud-1 NodeAddr=127.0.0.$number Port=1\"\n";
  std::filesystem::permissions(script, std::filesystem::perms::owner_all);
}

TEST(NodeAddress, IsSharedWithinAStepAndFailuresAreNotShared) {
  const test::TemporaryFolder folder;
  put_scontrol(folder);
  const std::string job = std::to_string(::getpid());  // no other test's
  EXPECT_THAT(resolved_in_step(folder, job, "0").error, testing::StartsWith("Slurm has no address for this node: "));
  EXPECT_EQ(name_for_programs(resolved_in_step(folder, job, "0")), "127.0.0.2");
  EXPECT_EQ(name_for_programs(resolved_in_step(folder, job, "1")), "127.0.0.3");
  EXPECT_EQ(name_for_programs(resolved_in_step(folder, job, "1")), "127.0.0.3");
  EXPECT_EQ(name_for_programs(resolved_in_step(folder, job + "1", "1")), "127.0.0.4");
}

Address classify(const char* text) {
  sockaddr_in ipv4{};
  ipv4.sin_family = AF_INET;
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  if (inet_pton(AF_INET, text, &ipv4.sin_addr) == 1) {
    return *from_sockaddr(reinterpret_cast<const sockaddr*>(&ipv4));
  }
  EXPECT_EQ(inet_pton(AF_INET6, text, &ipv6.sin6_addr), 1) << text;
  return *from_sockaddr(reinterpret_cast<const sockaddr*>(&ipv6));
}

TEST(Address, IsClassifiedByItsPrefix) {
  struct Case {
    const char* text;
    bool ipv4, loopback, link_local;
  };
  for (const Case& c :
       {Case{"10.78.0.1", true, false, false}, Case{"127.0.1.1", true, true, false},
        Case{"169.254.3.4", true, false, true}, Case{"169.253.3.4", true, false, false},
        Case{"::1", false, true, false}, Case{"fe80::1", false, false, true}, Case{"fd00::1", false, false, false}}) {
    const Address address = classify(c.text);
    EXPECT_EQ(address.text, c.text);
    EXPECT_EQ(address.ipv4, c.ipv4) << c.text;
    EXPECT_EQ(address.loopback, c.loopback) << c.text;
    EXPECT_EQ(address.link_local, c.link_local) << c.text;
  }
  EXPECT_EQ(classify("::ffff:127.0.0.1").text, "127.0.0.1");
  EXPECT_TRUE(classify("::ffff:127.0.0.1").loopback);
  EXPECT_FALSE(from_sockaddr(nullptr));
}

TEST(Address, Ipv4PrecedesIpv6InTheResolversOrder) {
  sockaddr_in6 ipv6{};
  ipv6.sin6_family = AF_INET6;
  ASSERT_EQ(inet_pton(AF_INET6, "fd00::1", &ipv6.sin6_addr), 1);
  sockaddr_in ipv4[2]{};
  for (sockaddr_in& address : ipv4) {
    address.sin_family = AF_INET;
  }
  ASSERT_EQ(inet_pton(AF_INET, "10.78.0.2", &ipv4[0].sin_addr), 1);
  ASSERT_EQ(inet_pton(AF_INET, "10.78.0.1", &ipv4[1].sin_addr), 1);
  void* const answers[] = {&ipv6, &ipv4[0], &ipv4[0], &ipv4[1]};
  addrinfo list[4]{};
  for (std::size_t i = 0; i < 4; ++i) {
    list[i].ai_addr = static_cast<sockaddr*>(answers[i]);
    list[i].ai_next = i < 3 ? &list[i + 1] : nullptr;
  }
  std::vector<std::string> texts;
  for (const Address& address : addresses_in(list)) {
    texts.push_back(address.text);
  }
  EXPECT_THAT(texts, ElementsAre("10.78.0.2", "10.78.0.1", "fd00::1"));
}

TEST(Observe, LocalhostResolvesToLoopbackWithIpv4First) {
  const ResolvedName resolved = resolve_name("localhost");
  ASSERT_FALSE(resolved.addresses.empty()) << resolved.error;
  EXPECT_TRUE(resolved.error.empty());
  EXPECT_EQ(resolved.addresses.front().text, "127.0.0.1");
  for (const Address& address : resolved.addresses) {
    EXPECT_TRUE(address.loopback) << address.text;
  }
  EXPECT_TRUE(std::is_partitioned(resolved.addresses.begin(), resolved.addresses.end(),
                                  [](const Address& a) { return a.ipv4; }));
}

TEST(Observe, NameThatCannotExistKeepsTheResolversError) {
  const ResolvedName resolved = resolve_name("no such host.invalid");
  EXPECT_TRUE(resolved.addresses.empty());
  EXPECT_FALSE(resolved.error.empty());
}

TEST(Observe, LoopbackInterfaceIsListedAndOwnsLoopbackRoutes) {
  const std::vector<Interface> interfaces = list_interfaces();
  const auto loopback =
      std::find_if(interfaces.begin(), interfaces.end(), [](const Interface& i) { return i.loopback; });
  ASSERT_NE(loopback, interfaces.end());
  EXPECT_TRUE(loopback->up);
  EXPECT_EQ(route_interface(Address{"127.0.0.1", true, true, false}, interfaces), loopback->name);
  EXPECT_EQ(route_interface(Address{"127.0.1.1", true, true, false}, interfaces), loopback->name);
  EXPECT_EQ(route_interface(Address{"not an address"}, interfaces), std::nullopt);
}

TEST(Observe, RouteToAnAddressOfThisHostIsTheInterfaceThatOwnsIt) {
  const std::vector<Interface> interfaces = list_interfaces();
  for (const Interface& interface : interfaces) {
    for (const Address& address : interface.addresses) {
      if (interface.up && address.ipv4 && !address.loopback) {
        EXPECT_EQ(route_interface(address, interfaces), interface.name) << address.text;
      }
    }
  }
}

TEST(Observe, ViewOfOneHostIsComplete) {
  const NetworkView view = observe({.names = {"localhost", "never-asked.invalid"}, .is_this_host = true}, {});
  EXPECT_FALSE(view.host_name.empty());
  ASSERT_EQ(view.head_names.size(), 2U);  // localhost is loopback only, so that the next name was tried
  EXPECT_FALSE(view.head_names[1].error.empty());
  EXPECT_EQ(view.route_interface, "lo");
  EXPECT_GT(view.ephemeral_ports.range.first, 0);
  EXPECT_GE(view.ephemeral_ports.range.last, view.ephemeral_ports.range.first);
}

TEST(Observe, UsableLoopbackAddressEndsTheLookUps) {
  const NetworkView view = observe({.names = {"127.0.0.1", "never-asked.invalid"}, .loopback_usable = true}, {});
  EXPECT_EQ(view.head_names.size(), 1);
  EXPECT_EQ(view.route_interface, "lo");
}

TEST(Observe, AnyAddressOf127IsOnTheLoopbackInterface) {
  // Debian writes 127.0.1.1 for the host's own name. The peer's address is nobody's: a route to it tells nothing.
  const NetworkView view =
      observe({.names = {"127.0.1.1"}, .is_this_host = true, .loopback_usable = true}, {"10.1.2.3"});
  EXPECT_EQ(view.route_interface, "lo");
}

TEST(Observe, NamesAfterAUsableOneAreNotLookedUp) {
  const NetworkView view = observe({.names = {"10.1.2.3", "never-asked.invalid"}}, {});
  ASSERT_EQ(view.head_names.size(), 1U);
  EXPECT_EQ(view.head_names[0].addresses.at(0).text, "10.1.2.3");
}

}  // namespace
}  // namespace rollcall::network

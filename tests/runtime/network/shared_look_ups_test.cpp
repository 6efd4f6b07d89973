#include "runtime/network/shared_look_ups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "runtime/contract/hook_wire.h"

namespace rollcall::network {
namespace {

using testing::ElementsAre;

std::vector<std::string> texts(const ResolvedName& name) {
  std::vector<std::string> all;
  for (const Address& address : name.addresses) {
    all.push_back(address.text);
  }
  return all;
}

/// Runs `body` in a child; its exit code, or 128 + signal.
template <typename Body>
int in_child(Body body) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::_exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Shared memory as slurmstepd creates it.
std::optional<SharedLookUps> share() {
  const int memory = ::memfd_create("rollcall-test", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(memory, hook::kSharedSize), 0);
  return SharedLookUps::open(memory);
}

ResolvedName never(const std::string& name) {
  ADD_FAILURE() << name << " is looked up again";
  return {};
}

TEST(LookUpText, IsUnchangedAfterSerialiseAndParse) {
  const std::vector<ResolvedName> names{{"jwb0001i", {{"10.78.0.1"}, {"fe80::1"}, {"127.0.0.1"}}, ""},
                                        {"nowhere", {}, "Name or service not known"}};
  const std::vector<ResolvedName> again = parse_look_ups(to_text(names));
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(again[0].name, "jwb0001i");
  EXPECT_THAT(texts(again[0]), ElementsAre("10.78.0.1", "fe80::1", "127.0.0.1"));
  EXPECT_TRUE(again[0].addresses[0].ipv4 && !again[0].addresses[1].ipv4);
  EXPECT_TRUE(again[0].addresses[1].link_local && again[0].addresses[2].loopback);
  EXPECT_EQ(again[1].error, "Name or service not known");
  EXPECT_TRUE(again[1].addresses.empty());
}

TEST(LookUpText, SkipsMalformedLines) {
  EXPECT_TRUE(parse_look_ups("").empty());
  EXPECT_TRUE(parse_look_ups("a\na\tb\n\t\t10.0.0.1\na\t\tten\na\x1b\t\t10.0.0.1\n").empty());
  EXPECT_EQ(parse_look_ups("\t\na\t\t10.0.0.1\tx\nb\t\t10.0.0.1\nc\t\t").size(), 2U);
  EXPECT_EQ(to_text({{"line\nfeed", {}, ""}}), "");
}

TEST(SharedLookUps, ResolveEachNameOnceForAllProcesses) {
  auto shared = share();
  ASSERT_TRUE(shared);
  const auto ask = [](const std::string& name) { return ResolvedName{name, {{"10.78.0.1"}}, ""}; };
  EXPECT_EQ(in_child([&] { return texts(shared->resolve("a", ask)).size() == 1 ? 0 : 1; }), 0);
  EXPECT_THAT(texts(shared->resolve("a", never)), ElementsAre("10.78.0.1"));
  EXPECT_EQ(shared->resolve("b", [](const std::string& name) { return ResolvedName{name, {}, "no"}; }).error, "no");
  EXPECT_EQ(in_child([&] { return shared->resolve("b", never).error == "no" ? 0 : 1; }), 0);
}

TEST(SharedLookUps, RecoverFromAProcessThatDiesDuringALookUp) {
  auto shared = share();
  ASSERT_TRUE(shared);
  const auto die = [](const std::string&) -> ResolvedName {
    ::raise(SIGKILL);
    return {};
  };
  EXPECT_EQ(in_child([&] { return shared->resolve("a", die).name.empty() ? 0 : 1; }), 128 + SIGKILL);
  const auto ask = [](const std::string& name) { return ResolvedName{name, {{"10.78.0.1"}}, ""}; };
  EXPECT_THAT(texts(shared->resolve("a", ask)), ElementsAre("10.78.0.1"));
  EXPECT_THAT(texts(shared->resolve("a", never)), ElementsAre("10.78.0.1"));
}

TEST(SharedLookUps, WorkWithoutFreeSpace) {
  auto shared = share();
  ASSERT_TRUE(shared);
  int asked = 0;
  const auto ask = [&](const std::string& name) {
    ++asked;
    return ResolvedName{name, {}, std::string(20'000, 'x')};
  };
  for (const char* const name : {"a", "b", "c", "d", "d", "a"}) {
    EXPECT_EQ(shared->resolve(name, ask).error.size(), 20'000U);
  }
  EXPECT_GE(asked, 4);
  EXPECT_LE(asked, 6);
}

TEST(SharedLookUps, LetOneProcessClaimTheReport) {
  auto shared = share();
  ASSERT_TRUE(shared);
  EXPECT_EQ(in_child([&] { return shared->claim_report() ? 1 : 0; }), 1);
  EXPECT_EQ(in_child([&] { return shared->claim_report() ? 1 : 0; }), 0);
  EXPECT_FALSE(shared->claim_report());
}

}  // namespace
}  // namespace rollcall::network

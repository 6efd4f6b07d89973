#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <thread>

#include "runtime/base/this_process.h"
#include "runtime/job/marker.h"
#include "runtime/rendezvous/admission.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/settings/launch_settings.h"
#include "tests/runtime/thread_pmix.h"
#include "tests/support/secret_file.h"

namespace rollcall::rendezvous {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// A folder of this test's own, removed at its end.
class Folder {
 public:
  Folder() {
    std::string name = testing::TempDir() + "rollcall-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

settings::Settings settings_with(const std::map<std::string, std::string>& values) {
  settings::Settings settings(settings::launch_table());
  EXPECT_TRUE(settings.set("rendezvous.secret", secret_file(), "test"));
  for (const auto& [name, value] : values) {
    const Result<void> set = settings.set(name, value, "test");
    EXPECT_TRUE(set) << set.error().message();
  }
  return settings;
}

job::JobFacts task(std::uint32_t rank, std::uint32_t world_size) {
  job::JobFacts facts;
  facts.job_id = 4711;
  facts.step_id = 0;
  facts.rank = rank;
  facts.world_size = world_size;
  facts.local_rank = rank;
  facts.local_world_size = world_size;
  facts.this_host = "localhost";
  return facts;
}

Environment meeting_with(const char* name, const char* value) {
  Environment environment;
  environment.set(name, value);
  return environment;
}

/// A port that was free a moment ago and lies outside the ephemeral range often enough.
std::uint16_t free_port() { return Listener::on_loopback()->port(); }

Environment at(const std::string& host, std::uint16_t port) {
  return Environment({{"MASTER_ADDR", host}, {"MASTER_PORT", std::to_string(port)}});
}

TEST(Meet, SingleRankUsesLoopback) {
  const auto meeting = meet(task(0, 1), Environment(), settings_with({}), nullptr);
  ASSERT_TRUE(meeting) << meeting.error().message();
  EXPECT_EQ(meeting->method, "alone");
  EXPECT_EQ(meeting->endpoint.host, "127.0.0.1");
  EXPECT_EQ(meeting->endpoint.port, meeting->listener->port());
}

TEST(Meet, ByAddressRanksWaitForALateRank0) {
  const std::uint16_t port = free_port();
  std::optional<Result<Meeting>> other;
  std::thread waiting([&] { other = meet(task(1, 2), at("localhost", port), settings_with({}), nullptr); });
  const auto zero = meet(task(0, 2), at("localhost", port), settings_with({}), nullptr);
  waiting.join();
  ASSERT_TRUE(zero) << zero.error().message();
  ASSERT_TRUE(*other) << other->error().message();
  EXPECT_EQ(zero->method, "address");
  EXPECT_EQ(zero->listener->port(), port);
  EXPECT_EQ((*other)->endpoint.port, port);
  EXPECT_FALSE((*other)->listener);
}

TEST(Meet, MasterPortInUseIsAnErrorOfRank0) {
  const auto taken = Listener::on_all_addresses(0);
  const auto zero = meet(task(0, 2), at("localhost", taken->port()), settings_with({}), nullptr);
  ASSERT_FALSE(zero);
  EXPECT_THAT(zero.error().reason, HasSubstr("is in use"));
}

TEST(Meet, ChosenPortInUseIsReplacedByTheNextInTheRange) {
  const auto foreign = Listener::on_all_addresses(0);
  const std::uint16_t port = foreign->port();
  for (const bool last_of_range : {false, true}) {
    const std::uint16_t first = last_of_range ? port - 9 : port;
    const settings::Settings settings =
        settings_with({{"port.range", std::to_string(first) + "-" + std::to_string(last_of_range ? port : port + 9)}});
    Environment ours = at("127.0.0.1", port);
    ours.set("ROLLCALL_SET", job::to_text({{"MASTER_ADDR", job::fnv1a("127.0.0.1")},
                                           {"MASTER_PORT", job::fnv1a(std::to_string(port))}}));
    std::optional<Result<Meeting>> other;
    std::thread waiting([&] { other = meet(task(1, 2), ours, settings, nullptr); });
    // The foreign program closes connections, as a store does for another protocol.
    std::thread serving([&] { close(accept(foreign->descriptor(), nullptr, nullptr)); });
    const auto zero = meet(task(0, 2), ours, settings, nullptr);
    serving.join();
    waiting.join();
    ASSERT_TRUE(zero) << zero.error().message();
    ASSERT_TRUE(*other) << other->error().message();
    EXPECT_NE(zero->endpoint.port, port);
    EXPECT_EQ(zero->endpoint.port, zero->listener->port());
    EXPECT_EQ((*other)->endpoint.port, zero->endpoint.port);
    EXPECT_GE(zero->endpoint.port, first);
    EXPECT_EQ(to_text((*other)->key), to_text(zero->key));
  }
}

TEST(Meet, ErrorNamesTheOwnerOfTheFirstPortWhenRanksAreMissing) {
  const auto foreign = Listener::on_all_addresses(0);
  const std::string port = std::to_string(foreign->port());
  const settings::Settings settings =
      settings_with({{"port.range", port + "-" + std::to_string(foreign->port() + 9)}, {"rendezvous.timeout", "0.2"}});
  Environment ours = at("127.0.0.1", foreign->port());
  ours.set("ROLLCALL_SET", job::to_text({{"MASTER_ADDR", job::fnv1a("127.0.0.1")}, {"MASTER_PORT", job::fnv1a(port)}}));
  const auto zero = meet(task(0, 2), ours, settings, nullptr);
  ASSERT_FALSE(zero);
  EXPECT_THAT(zero.error().reason, StartsWith("only 1 of 2 ranks arrived"));
  EXPECT_THAT(zero.error().reason, EndsWith(fmt::format(" because a process of user {} listens at MASTER_PORT {} on {}",
                                                        geteuid(), port, this_host_name())));
}

TEST(Meet, ErrorNamesAStaleEndpointFileWhenAnotherRunListensThere) {
  const Folder folder;
  const auto settings = settings_with(
      {{"rendezvous", "file"}, {"rendezvous.folder", folder.path().string()}, {"rendezvous.timeout", "1"}});
  const auto path = endpoint_file_path(folder.path(), task(0, 2));
  const auto own = Listener::on_all_addresses(0);
  const auto earlier = EndpointFile::publish(path, {"127.0.0.1", own->port()}, "4711-0-0", "earlier");
  std::thread zero([&] {
    EXPECT_FALSE(
        admit_others(*own, {"4711-0-0", "0"}, Secret::of("later", "4711-0-0"), 2, std::chrono::duration<double>(2)));
  });
  const auto other = meet(task(1, 2), Environment(), settings, nullptr);
  zero.join();
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().reason,
              HasSubstr("a rollcall process listens there that does not know the secret of 4711-0-0"));
  EXPECT_THAT(other.error().reason,
              HasSubstr("; the endpoint is from " + path.string() + ", perhaps of an earlier run"));
}

TEST(Meet, MissingRank0IsAnErrorWithEndpointAndTimeout) {
  const std::uint16_t port = free_port();
  const auto other = meet(task(1, 2), at("127.0.0.1", port), settings_with({{"rendezvous.timeout", "0.2"}}), nullptr);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().kind, ErrorKind::RendezvousUnanswered);
  EXPECT_EQ(other.error().value, "127.0.0.1:" + std::to_string(port));
  EXPECT_THAT(other.error().reason, HasSubstr("0.2 s"));
  EXPECT_THAT(other.error().reason, HasSubstr("refused"));
}

TEST(Meet, ByAddressWithoutMasterAddrIsAnError) {
  const auto zero = meet(task(0, 2), Environment(), settings_with({{"rendezvous", "address"}}), nullptr);
  ASSERT_FALSE(zero);
  EXPECT_EQ(zero.error().setting, "MASTER_ADDR");
}

TEST(Meet, RequestedPmixWithoutAServerIsAnErrorWithARemedy) {
  const auto zero = meet(task(0, 2), Environment(), settings_with({{"rendezvous", "pmix"}}), nullptr);
  ASSERT_FALSE(zero);
  EXPECT_THAT(zero.error().message(), StartsWith("rollcall: rendezvous: pmix: "));
  EXPECT_THAT(zero.error().message(), HasSubstr("try srun --mpi=pmix"));
  EXPECT_FALSE(pmix_for(Environment(), settings_with({{"rendezvous", "pmix"}})));
  EXPECT_EQ(*pmix_for(Environment(), settings_with({})), nullptr);
  EXPECT_EQ(*pmix_for(meeting_with("PMIX_NAMESPACE", "x"), settings_with({{"rendezvous", "address"}})), nullptr);
}

std::vector<Result<Meeting>> meet_in_threads(std::uint32_t ranks, const Environment& environment,
                                             const settings::Settings& settings) {
  Exchange exchange(ranks);
  std::vector<std::optional<Result<Meeting>>> found(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadPmix pmix(exchange, rank);
      found[rank] = meet(task(rank, ranks), environment, settings, &pmix);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::vector<Result<Meeting>> meetings;
  for (auto& meeting : found) {
    meetings.push_back(std::move(*meeting));
  }
  return meetings;
}

TEST(Meet, OverPmixAllRanksGetThePortOfRank0sSocket) {
  const std::string marker =
      job::to_text({{"MASTER_ADDR", job::fnv1a("localhost")}, {"MASTER_PORT", job::fnv1a("20000")}});
  Environment ours = at("localhost", 20000);
  ours.set("ROLLCALL_SET", marker);
  const auto meetings = meet_in_threads(4, ours, settings_with({}));
  for (const auto& meeting : meetings) {
    ASSERT_TRUE(meeting) << meeting.error().message();
    EXPECT_EQ(meeting->method, "pmix");
    EXPECT_EQ(meeting->endpoint.host, "localhost");
    EXPECT_EQ(meeting->endpoint.port, meetings[0]->listener->port());
  }
  EXPECT_NE(meetings[0]->endpoint.port, 20000);
}

TEST(Meet, OverPmixEachWorldOfAStepHasItsOwnRank0) {
  constexpr std::uint32_t kFirstOfSecond = 2;
  Exchange exchange(5);
  std::vector<std::optional<Result<Meeting>>> found(5);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadPmix pmix(exchange, rank);
      const bool second = rank >= kFirstOfSecond;
      job::JobFacts facts = second ? task(rank - kFirstOfSecond, 3) : task(rank, 2);
      facts.first_rank = second ? kFirstOfSecond : 0;
      found[rank] = meet(facts, Environment(), settings_with({}), &pmix);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    ASSERT_TRUE(*found[rank]) << found[rank]->error().message();
    const std::uint32_t zero = rank >= kFirstOfSecond ? kFirstOfSecond : 0;
    EXPECT_EQ((*found[rank])->endpoint.port, (*found[zero])->listener->port()) << rank;
  }
}

TEST(Meet, UsersMasterAddrHasPrecedenceOverPmix) {
  const auto meetings = meet_in_threads(2, at("localhost", free_port()), settings_with({}));
  for (const auto& meeting : meetings) {
    ASSERT_TRUE(meeting) << meeting.error().message();
    EXPECT_EQ(meeting->method, "address");
  }
}

TEST(Meet, RankZerosFailureOverPmixReachesAllRanks) {
  const auto taken = Listener::on_all_addresses(0);
  const auto meetings = meet_in_threads(3, at("localhost", taken->port()), settings_with({{"rendezvous", "pmix"}}));
  EXPECT_THAT(meetings[0].error().reason, HasSubstr("is in use"));
  for (std::size_t rank = 1; rank < 3; ++rank) {
    ASSERT_FALSE(meetings[rank]);
    EXPECT_THAT(meetings[rank].error().reason, HasSubstr("rank 0"));
  }
}

TEST(Meet, ReservedPortIsTriedFirstAndReplacedWhenInUse) {
  job::JobFacts zero = task(0, 2);
  const std::uint16_t reserved = free_port();
  zero.reserved_ports = std::to_string(reserved);
  const Folder folder;
  const settings::Settings settings =
      settings_with({{"rendezvous", "file"}, {"rendezvous.folder", folder.path().string()}});
  Environment ours = at("localhost", reserved);
  ours.set("ROLLCALL_SET", job::to_text({{"MASTER_PORT", job::fnv1a(std::to_string(reserved))}}));
  const auto meet_two = [&] {
    std::thread other([&] { EXPECT_TRUE(meet(task(1, 2), ours, settings, nullptr)); });
    auto meeting = meet(zero, ours, settings, nullptr);
    other.join();
    return meeting;
  };
  const auto first = meet_two();
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_EQ(first->endpoint.port, reserved);
  const auto second = meet_two();
  ASSERT_TRUE(second) << second.error().message();
  EXPECT_NE(second->endpoint.port, reserved);
}

/// Runs `child` in a process of its own; its exit status.
pid_t start(const std::function<int()>& child) {
  const pid_t process = fork();
  if (process == 0) {
    _exit(child());
  }
  return process;
}

int status_of(pid_t process) {
  int status = -1;
  waitpid(process, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Meet, FourProcessesMeetThroughAFileDespiteAStaleOne) {
  const Folder folder;
  const settings::Settings settings =
      settings_with({{"rendezvous", "file"}, {"rendezvous.folder", folder.path().string()}});
  const auto path = endpoint_file_path(folder.path(), task(0, 4));
  const std::uint16_t unused_port = free_port();
  std::ofstream(path) << "rollcall endpoint 3\nlocalhost:" << unused_port << "\n4711-0-0 0123456789abcdef\n";
  chmod(path.c_str(), 0600);
  std::vector<pid_t> others;
  for (std::uint32_t rank = 1; rank < 4; ++rank) {
    others.push_back(start([&, rank] {
      const auto meeting = meet(task(rank, 4), Environment(), settings, nullptr);
      return meeting && meeting->method == "file" && meeting->endpoint.port != unused_port ? 0 : 1;
    }));
  }
  {
    const auto zero = meet(task(0, 4), Environment(), settings, nullptr);
    ASSERT_TRUE(zero) << zero.error().message();
    EXPECT_TRUE(std::filesystem::exists(path));
    for (const pid_t other : others) {
      EXPECT_EQ(status_of(other), 0);
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Meet, ByAddressWithoutASecretIsAnErrorWithARemedy) {
  settings::Settings settings = settings_with({});
  ASSERT_TRUE(settings.set("rendezvous.secret", "/nowhere/secret", "test"));
  const auto zero = meet(task(0, 2), at("localhost", free_port()), settings, nullptr);
  ASSERT_FALSE(zero);
  EXPECT_THAT(zero.error().message(), StartsWith("rollcall: rendezvous.secret: /nowhere/secret: does not exist"));
  EXPECT_THAT(zero.error().action, EndsWith("; or srun --mpi=pmix or --rendezvous=file, which need none"));
}

TEST(Meet, ByAddressWithAnUnwritableHomeIsAnErrorWithARemedy) {
  Environment environment = at("localhost", free_port());
  environment.set("HOME", "/proc/none");
  const auto zero = meet(task(0, 2), environment, settings::Settings(settings::launch_table()), nullptr);
  ASSERT_FALSE(zero);
  EXPECT_THAT(zero.error().message(), StartsWith("rollcall: rendezvous.secret: /proc/none/.local/state/rollcall/"));
  EXPECT_THAT(zero.error().action, EndsWith("; or srun --ddp, srun --mpi=pmix or --rendezvous=file, which need none"));
}

TEST(Meet, MissingEndpointFileIsAnErrorThatNamesIt) {
  const Folder folder;
  const auto settings = settings_with(
      {{"rendezvous", "file"}, {"rendezvous.folder", folder.path().string()}, {"rendezvous.timeout", "0.1"}});
  const auto other = meet(task(1, 2), Environment(), settings, nullptr);
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().setting, "rendezvous.folder");
  EXPECT_THAT(other.error().value, HasSubstr("rollcall-4711-0-0.endpoint"));
  EXPECT_FALSE(meet(task(0, 2), Environment(), settings_with({{"rendezvous", "file"}}), nullptr));
}

}  // namespace
}  // namespace rollcall::rendezvous

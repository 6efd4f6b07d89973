#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <vector>

#include "runtime/job/marker.h"
#include "runtime/rendezvous/meet.h"
#include "runtime/resolve/master_endpoint.h"
#include "runtime/settings/launch_settings.h"
#include "tests/support/secret_file.h"

namespace rollcall::rendezvous {
namespace {

constexpr std::uint32_t kRanksOfStep = 3;

struct Step {
  std::uint32_t job = 0;
  std::uint32_t step = 0;
};

/// What a rank found, in memory that all processes share. All zeros: it has not met.
struct Found {
  std::uint16_t port = 0;
  std::array<char, 64> key{};
};

settings::Settings with(const std::string& port_range, const std::string& timeout) {
  settings::Settings settings(settings::launch_table());
  EXPECT_TRUE(settings.set("rendezvous.secret", secret_file(), "test"));
  EXPECT_TRUE(settings.set("port.range", port_range, "test"));
  EXPECT_TRUE(settings.set("rendezvous.timeout", timeout, "test"));
  return settings;
}

job::JobFacts task(const Step& step, std::uint32_t rank) {
  job::JobFacts facts;
  facts.job_id = step.job;
  facts.step_id = step.step;
  facts.rank = facts.local_rank = rank;
  facts.world_size = facts.local_world_size = kRanksOfStep;
  facts.this_host = "localhost";
  return facts;
}

/// What srun --ddp gives a task: the port of its step, marked as rollcall's choice.
Environment environment_of(const job::JobFacts& facts, const settings::Settings& settings) {
  const auto [first, last] = settings.port_range("port.range");
  const std::string port = std::to_string(resolve::choose_rendezvous_port(facts, {first, last})->port);
  return Environment(
      {{"MASTER_ADDR", "127.0.0.1"},
       {"MASTER_PORT", port},
       {"ROLLCALL_SET", job::to_text({{"MASTER_ADDR", job::fnv1a("127.0.0.1")}, {"MASTER_PORT", job::fnv1a(port)}})}});
}

/// Holds the port like the store of a running step, which closes connections of another protocol, until `end` is
/// closed at its other end.
void serve_until_closed(const Listener& listener, int end) {
  while (true) {
    std::array<pollfd, 2> waiting{pollfd{listener.descriptor(), POLLIN, 0}, pollfd{end, POLLIN, 0}};
    poll(waiting.data(), waiting.size(), -1);
    if (waiting[1].revents != 0) {
      return;
    }
    close(accept(listener.descriptor(), nullptr, nullptr));
  }
}

[[noreturn]] void be_rank(const Step& step, std::uint32_t rank, const settings::Settings& settings, int end,
                          Found& found) {
  const job::JobFacts facts = task(step, rank);
  const auto meeting = meet(facts, environment_of(facts, settings), settings, nullptr);
  if (meeting) {
    const std::string key = to_text(meeting->key);
    std::memcpy(found.key.data(), key.data(), std::min(key.size(), found.key.size() - 1));
    found.port = meeting->endpoint.port;
    if (meeting->listener) {
      serve_until_closed(*meeting->listener, end);
    }
  }
  _exit(0);
}

/// What each rank of each of the `steps` found when all of them met at once; kRanksOfStep in a row for each step.
std::vector<Found> all_at_once(const std::vector<Step>& steps, const settings::Settings& settings) {
  const std::size_t bytes = steps.size() * kRanksOfStep * sizeof(Found);
  auto* const shared =
      static_cast<Found*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  std::array<int, 2> end{};
  EXPECT_EQ(pipe2(end.data(), O_CLOEXEC), 0);
  std::vector<pid_t> zeros;
  std::vector<pid_t> others;
  for (std::size_t i = 0; i < steps.size() * kRanksOfStep; ++i) {
    const auto rank = static_cast<std::uint32_t>(i % kRanksOfStep);
    const pid_t process = fork();
    if (process == 0) {
      close(end[1]);
      be_rank(steps[i / kRanksOfStep], rank, settings, end[0], shared[i]);
    }
    (rank == 0 ? zeros : others).push_back(process);
  }
  const auto await = [](pid_t process) { EXPECT_EQ(waitpid(process, nullptr, 0), process); };
  std::ranges::for_each(others, await);
  close(end[1]);
  std::ranges::for_each(zeros, await);
  close(end[0]);
  std::vector<Found> found(shared, shared + steps.size() * kRanksOfStep);
  munmap(shared, bytes);
  return found;
}

/// Every rank that met did so with rank 0 of its own step.
void expect_own_worlds(const std::vector<Step>& steps, const std::vector<Found>& found) {
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i].port != 0) {
      const Step& step = steps[i / kRanksOfStep];
      const Found& zero = found[i / kRanksOfStep * kRanksOfStep];
      EXPECT_EQ(found[i].port, zero.port) << "rank " << i % kRanksOfStep << " of " << step.job << "." << step.step;
      EXPECT_STREQ(found[i].key.data(), zero.key.data()) << "rank " << i % kRanksOfStep;
      EXPECT_TRUE(std::string(zero.key.data()).starts_with(fmt::format("{}-{}-0-", step.job, step.step)));
    }
  }
}

TEST(ConcurrentSteps, TwoHundredStepsOnOneHostDoNotMix) {
  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < 200; ++i) {
    steps.push_back({4711 + i / 20, i % 20});
  }
  const std::vector<Found> found = all_at_once(steps, with("20000-29999", "120"));
  expect_own_worlds(steps, found);
  std::set<std::uint16_t> ports;
  for (const Found& one : found) {
    EXPECT_NE(one.port, 0) << "has not met";
    ports.insert(one.port);
  }
  EXPECT_EQ(ports.size(), 200U);
}

TEST(ConcurrentSteps, WithTooFewPortsNoRankJoinsAnotherStep) {
  std::vector<Step> steps;
  for (std::uint32_t i = 0; i < 40; ++i) {
    steps.push_back({i * 7919, i % 3});
  }
  const std::vector<Found> found = all_at_once(steps, with("21000-21007", "2"));
  expect_own_worlds(steps, found);
  EXPECT_TRUE(std::ranges::any_of(found, [](const Found& one) { return one.port != 0; }));
}

}  // namespace
}  // namespace rollcall::rendezvous

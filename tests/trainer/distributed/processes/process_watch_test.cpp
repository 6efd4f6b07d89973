// Watching processes end.

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <atomic>
#include <csignal>
#include <thread>
#include <vector>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::chrono::milliseconds kNoWait{0};
constexpr std::chrono::minutes kLong{2};

/// A child that waits to be killed.
class Child {
 public:
  Child() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) {
        pause();
      }
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    end();
    collect();
  }

  [[nodiscard]] std::string identity() const { return process_space() + " " + std::to_string(pid_); }
  void end() const { kill(pid_, SIGKILL); }
  void stop() const {
    kill(pid_, SIGSTOP);
    waitpid(pid_, nullptr, WUNTRACED);
  }
  void collect() const { waitpid(pid_, nullptr, 0); }

 private:
  pid_t pid_;
};

/// A waiter with the ends that it already knows.
class Listener {
 public:
  explicit Listener(ProcessWatch& watch) : watch_(watch) {}
  [[nodiscard]] std::vector<std::uint32_t> await_ended(std::chrono::milliseconds longest) {
    return watch_.await_ended(known_, longest, gives_up);
  }
  std::atomic<bool> gives_up{false};

 private:
  ProcessWatch& watch_;
  std::size_t known_ = 0;
};

TEST(ProcessWatch, ReportsEachEndOnceToEveryListenerEvenForZombies) {
  const Child first;
  const Child second;
  ProcessWatch watch;
  Listener one(watch);
  Listener other(watch);
  watch.add(3, first.identity());
  watch.add(5, second.identity());
  EXPECT_THAT(one.await_ended(kNoWait), IsEmpty());
  EXPECT_TRUE(watch.is_alive(3));
  EXPECT_FALSE(watch.has_ended(3));
  first.end();
  EXPECT_THAT(one.await_ended(kLong), ElementsAre(3));
  EXPECT_THAT(one.await_ended(kNoWait), IsEmpty());
  EXPECT_TRUE(watch.has_ended(3));
  EXPECT_FALSE(watch.is_alive(3));
  EXPECT_TRUE(watch.is_alive(5));
  second.end();
  EXPECT_THAT(one.await_ended(kLong), ElementsAre(5));
  EXPECT_THAT(other.await_ended(kLong), ElementsAre(3, 5));
}

TEST(ProcessWatch, CallsCallbacksUntilTheyAreUnregistered) {
  const Child first;
  const Child second;
  ProcessWatch watch;
  Listener listener(watch);
  std::atomic<int> calls = 0;
  watch.add(1, first.identity());
  watch.add(2, second.identity());
  watch.notify(&calls, [&] { ++calls; });
  first.end();
  while (calls == 0) {
    std::this_thread::yield();
  }
  watch.notify(&calls, {});
  second.end();
  while (!watch.has_ended(2) || listener.await_ended(kLong) == std::vector<std::uint32_t>{1}) {
  }
  EXPECT_EQ(calls, 1);
}

TEST(ProcessWatch, CountsAStoppedProcessAsAlive) {
  const Child child;
  ProcessWatch watch;
  watch.add(1, child.identity());
  child.stop();
  EXPECT_TRUE(watch.is_alive(1));
  EXPECT_THAT(Listener(watch).await_ended(kNoWait), IsEmpty());
}

TEST(ProcessWatch, IgnoresOtherHostsAndProcessesThatEndedBefore) {
  const Child child;
  child.end();
  child.collect();
  ProcessWatch watch;
  watch.add(1, "another boot pid:[1] " + std::to_string(getpid()));
  watch.add(2, process_space() + " x");
  watch.add(3, "");
  watch.add(4, child.identity());
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    EXPECT_FALSE(watch.is_alive(rank)) << rank;
    EXPECT_FALSE(watch.has_ended(rank)) << rank;
  }
}

TEST(ProcessWatch, WakeEndsTheWaitPermanently) {
  ProcessWatch watch;
  Listener listener(watch);
  const std::jthread waker([&] {
    listener.gives_up = true;
    watch.wake();
  });
  EXPECT_THAT(listener.await_ended(kLong), IsEmpty());
  EXPECT_THAT(listener.await_ended(kLong), IsEmpty());
}

TEST(ProcessIdentity, IdentifiesThisProcess) {
  ProcessWatch watch;
  watch.add(0, process_identity());
  EXPECT_TRUE(watch.is_alive(0));
}

TEST(ProcessIdentity, OfAnotherHostWithTheSamePidIsUnknown) {
  std::string other = process_identity();
  ASSERT_FALSE(other.empty());
  other.front() = other.front() == '0' ? '1' : '0';  // of that host's boot
  EXPECT_FALSE(local_process(other));
  ProcessWatch watch;
  watch.add(0, other);
  EXPECT_FALSE(watch.is_alive(0));
  EXPECT_FALSE(watch.has_ended(0));
}

}  // namespace
}  // namespace rollcall::process_group

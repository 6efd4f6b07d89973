// Processes that are seen to end.

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>
#include <thread>

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

TEST(ProcessWatch, TellsEachEndOnceAlsoOfAChildThatNobodyCollected) {
  const Child first;
  const Child second;
  ProcessWatch watch;
  watch.add(3, first.identity());
  watch.add(5, second.identity());
  EXPECT_THAT(watch.await_end(kNoWait), IsEmpty());
  EXPECT_TRUE(watch.lives(3));
  EXPECT_FALSE(watch.has_ended(3));
  first.end();
  EXPECT_THAT(watch.await_end(kLong), ElementsAre(3));
  EXPECT_THAT(watch.await_end(kNoWait), IsEmpty());
  EXPECT_TRUE(watch.has_ended(3));
  EXPECT_FALSE(watch.lives(3));
  EXPECT_TRUE(watch.lives(5));
  second.end();
  EXPECT_THAT(watch.await_end(kLong), ElementsAre(5));
}

TEST(ProcessWatch, AStoppedProcessLives) {
  const Child child;
  ProcessWatch watch;
  watch.add(1, child.identity());
  child.stop();
  EXPECT_TRUE(watch.lives(1));
  EXPECT_THAT(watch.await_end(kNoWait), IsEmpty());
}

TEST(ProcessWatch, KnowsNothingOfOtherHostsAndOfProcessesThatHadEndedBefore) {
  const Child child;
  child.end();
  child.collect();
  ProcessWatch watch;
  watch.add(1, "another boot pid:[1] " + std::to_string(getpid()));
  watch.add(2, process_space() + " x");
  watch.add(3, "");
  watch.add(4, child.identity());
  for (std::uint32_t rank = 0; rank < 5; ++rank) {
    EXPECT_FALSE(watch.lives(rank)) << rank;
    EXPECT_FALSE(watch.has_ended(rank)) << rank;
  }
}

TEST(ProcessWatch, AnotherThreadEndsTheWaitForGood) {
  ProcessWatch watch;
  const std::jthread waker([&] { watch.wake(); });
  EXPECT_THAT(watch.await_end(kLong), IsEmpty());
  EXPECT_THAT(watch.await_end(kLong), IsEmpty());
}

TEST(ProcessIdentity, IsOneOfThisProcess) {
  ProcessWatch watch;
  watch.add(0, process_identity());
  EXPECT_TRUE(watch.lives(0));
}

TEST(ProcessIdentity, OfAnotherHostWithTheSameNumberIsUnknown) {
  std::string other = process_identity();
  ASSERT_FALSE(other.empty());
  other.front() = other.front() == '0' ? '1' : '0';  // of that host's boot
  EXPECT_FALSE(local_process(other));
  ProcessWatch watch;
  watch.add(0, other);
  EXPECT_FALSE(watch.lives(0));
  EXPECT_FALSE(watch.has_ended(0));
}

}  // namespace
}  // namespace rollcall::process_group

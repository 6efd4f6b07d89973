#include "runtime/rendezvous/connect.h"

#include <gtest/gtest.h>

namespace rollcall::rendezvous {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;

/// The number of connection attempts of one rank while rank 0 is late by `late`.
int attempts_within(Clock::duration late) {
  int attempts = 1;
  for (Clock::duration waited{}; waited < late; waited += rest_after(waited)) {
    ++attempts;
  }
  return attempts;
}

TEST(Attempts, AreFrequentAtFirst) {
  EXPECT_EQ(rest_after(milliseconds(0)), milliseconds(2));
  EXPECT_GE(attempts_within(milliseconds(100)), 15);
}

TEST(Attempts, DelayIsAtMostAnEighthOfTheWaitingTime) {
  for (int waited = 16; waited < 100'000; waited = waited * 3 / 2) {
    EXPECT_LE(rest_after(milliseconds(waited)), milliseconds(waited / 8)) << waited;
  }
}

TEST(Attempts, AreLimitedWhenRank0IsLate) {
  EXPECT_LE(attempts_within(minutes(1)), 120);
  EXPECT_GE(attempts_within(minutes(1)), 60);
}

}  // namespace
}  // namespace rollcall::rendezvous

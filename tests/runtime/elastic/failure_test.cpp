#include "runtime/elastic/failure.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>
#include <string>

namespace rollcall::elastic {
namespace {

constexpr std::int64_t kMillisecond = 1'000'000;

AgedCause failed(std::uint32_t rank, std::int64_t milliseconds_ago) {
  Cause cause{.kind = Cause::Kind::Exception, .rank = rank, .exit_code = 1};
  return {cause, milliseconds_ago * kMillisecond};
}

AgedCause killed(std::uint32_t rank, int signal, std::int64_t milliseconds_ago) {
  Cause cause{.kind = Cause::Kind::Killed, .rank = rank, .exit_code = 128 + signal, .signal = signal};
  return {cause, milliseconds_ago * kMillisecond};
}

AgedCause lost(std::uint32_t node, std::int64_t milliseconds_ago) {
  Cause cause{.kind = Cause::Kind::NodeLost, .group_rank = node, .rank = 100 + node};
  return {cause, milliseconds_ago * kMillisecond};
}

std::uint32_t first(const std::vector<AgedCause>& causes) { return choose_first_cause(causes)->rank; }

TEST(FirstCause, IsTheOldest) {
  EXPECT_FALSE(choose_first_cause({}));
  EXPECT_EQ(first({failed(0, 10), failed(1, 12), failed(2, 11)}), 1U);
}

TEST(FirstCause, IsAKilledProcessAndNotTheErrorsOfItsPeers) {
  EXPECT_EQ(first({failed(0, 300), killed(1, SIGKILL, 200)}), 1U);
  EXPECT_EQ(first({failed(0, 300), killed(1, SIGABRT, 200)}), 0U);   // libraries abort when a peer is gone
  EXPECT_EQ(first({failed(0, 1500), killed(1, SIGKILL, 200)}), 0U);  // long after: another matter
  EXPECT_EQ(first({failed(0, 300), killed(1, SIGSEGV, 100), killed(2, SIGKILL, 200)}), 2U);
}

TEST(FirstCause, IsALostNodeAlthoughItIsDetectedLater) {
  EXPECT_EQ(first({failed(0, 3000), lost(2, 1000)}), 102U);
  EXPECT_EQ(first({failed(0, 9000), lost(2, 1000)}), 0U);
}

TEST(ErrorFile, IsReadInBothForms) {
  EXPECT_EQ(error_file_message(R"({"message": {"message": "ValueError: x\ny", "extraInfo": {"timestamp": "1"}}})"),
            "ValueError: x");
  EXPECT_EQ(error_file_message(R"({"message": "plain"})"), "plain");
  for (const char* text : {"", "{", "[]", R"({"other": 1})", R"({"message": 3})", R"({"message": {"message": 3}})"}) {
    EXPECT_FALSE(error_file_message(text)) << text;
  }
}

TEST(ErrorFile, GetsTheExitCodeOfTheWorker) {
  EXPECT_NE(with_error_code(R"({"message": {"message": "m"}})", -9).find(R"("errorCode":-9)"), std::string::npos);
  EXPECT_EQ(with_error_code("no json", 1), "no json");
}

TEST(Description, NamesRankHostPidAndExitReason) {
  Cause cause{
      .kind = Cause::Kind::Killed, .host = "n1", .rank = 3, .local_rank = 1, .pid = 7, .exit_code = 137, .signal = 9};
  EXPECT_EQ(describe(cause), "rank 3 (local rank 1, pid 7) on n1: killed by signal 9 (SIGKILL)");
  cause = {.kind = Cause::Kind::Exception, .host = "n\n1", .rank = 3, .exit_code = 1, .message = "a\tb"};
  EXPECT_EQ(describe(cause), "rank 3 (local rank 0) on n?1: exit code 1: a?b");
}

TEST(Signals, HaveTheNamesOfTheCLibrary) {
  for (int signal = 1; signal <= SIGRTMAX; ++signal) {
    const char* const name = sigabbrev_np(signal);
    EXPECT_EQ(signal_text(signal), fmt::format("{}{}", signal, name != nullptr ? fmt::format(" (SIG{})", name) : ""));
  }
}

}  // namespace
}  // namespace rollcall::elastic

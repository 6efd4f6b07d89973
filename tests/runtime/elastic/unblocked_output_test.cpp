#include "runtime/elastic/unblocked_output.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <string>

namespace rollcall::elastic {
namespace {

constexpr std::chrono::milliseconds kPatience{20};

TEST(UnblockedOutput, ReturnsWhatAnUnreadTerminalDoesNotAccept) {
  const int reader = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_EQ(unlockpt(reader), 0);
  const int terminal = open(ptsname(reader), O_RDWR | O_NOCTTY | O_CLOEXEC);
  ASSERT_GE(terminal, 0);
  const std::string lines(1 << 20, '\n');
  const std::size_t left = UnblockedOutput(terminal).write(lines, kPatience).size();
  EXPECT_GT(left, 0U);
  EXPECT_LT(left, lines.size());
  EXPECT_EQ(fcntl(terminal, F_GETFL) & O_NONBLOCK, 0) << "it is the workers' as well";
  close(terminal);
  close(reader);
}

TEST(UnblockedOutput, AppendsAfterTheWritesOfOthers) {
  std::string name = testing::TempDir() + "rollcall-XXXXXX";
  const int file = mkstemp(name.data());
  ASSERT_EQ(::write(file, "others", 6), 6);
  EXPECT_EQ(UnblockedOutput(file).write(" and I", kPatience), "");
  std::array<char, 32> text{};
  EXPECT_EQ(pread(file, text.data(), text.size(), 0), 12);
  EXPECT_STREQ(text.data(), "others and I");
  close(file);
  unlink(name.c_str());
}

}  // namespace
}  // namespace rollcall::elastic

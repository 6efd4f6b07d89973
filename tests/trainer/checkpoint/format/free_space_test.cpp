#include "trainer/checkpoint/format/folder.h"

#include <gmock/gmock.h>

namespace rollcall::checkpoint::format {
namespace {

using testing::HasSubstr;

TEST(FreeSpace, IsReadFromTheFileSystem) {
  const auto space = free_space_at("/");
  ASSERT_TRUE(space);
  EXPECT_TRUE(check_free_space("/", *space, 0));
  EXPECT_FALSE(free_space_at("/nonexistent/folder"));
}

TEST(FreeSpace, ErrorStatesTheRequiredAndTheFreeBytes) {
  constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
  const Result<void> disk = check_free_space("/scratch", {10 * kMebibyte, std::nullopt}, 11 * kMebibyte);
  ASSERT_FALSE(disk);
  EXPECT_THAT(disk.error().message(), HasSubstr("takes 11.0 MiB, but the file system leaves 10.0 MiB"));
  const Result<void> quota = check_free_space("/scratch", {100 * kMebibyte, 5 * kMebibyte}, 11 * kMebibyte);
  ASSERT_FALSE(quota);
  EXPECT_THAT(quota.error().message(), HasSubstr("your quota leaves 5.0 MiB"));
  EXPECT_TRUE(check_free_space("/scratch", {100 * kMebibyte, 50 * kMebibyte}, 11 * kMebibyte));
}

}  // namespace
}  // namespace rollcall::checkpoint::format

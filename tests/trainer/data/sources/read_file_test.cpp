#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <algorithm>
#include <cstdio>

#include "tests/support/test_images.h"
#include "trainer/data/sources/image_folder.h"

namespace rollcall::data {
namespace {

using test::make_jpeg;
using test::smooth_pixels;

TEST(ReadFile, ReturnsTheBytesOrAnError) {
  const std::string path = testing::TempDir() + "rollcall_read_file_test";
  const auto content = make_jpeg(smooth_pixels(8, 8, 9), 8, 8);
  test::write_file(path, content);
  std::vector<std::byte> buffer(1 << 20);  // only grows: what lies behind the file stays
  const auto bytes = read_file(path, buffer);
  ASSERT_TRUE(bytes);
  EXPECT_TRUE(std::ranges::equal(*bytes, content));
  EXPECT_EQ(buffer.size(), 1U << 20);
  std::remove(path.c_str());
  EXPECT_EQ(read_file(path, buffer).error().kind, ErrorKind::NoInput);
  EXPECT_EQ(read_file(testing::TempDir(), buffer).error().kind, ErrorKind::NoInput);
}

TEST(ReadFile, RejectsATooLargeFileBeforeAllocating) {
  const std::string path = testing::TempDir() + "rollcall_sparse.jpg";
  test::write_file(path, {});
  ASSERT_EQ(::truncate(path.c_str(), off_t{1} << 40), 0);
  std::vector<std::byte> buffer;
  const auto bytes = read_file(path, buffer);
  ASSERT_FALSE(bytes);
  EXPECT_EQ(bytes.error().kind, ErrorKind::BadData);
  EXPECT_NE(bytes.error().message().find("has 1099511627776 bytes"), std::string::npos);
  EXPECT_EQ(buffer.size(), 0U);
  std::remove(path.c_str());
}

TEST(ReadFile, RejectsANamedPipeWithoutBlocking) {
  const std::string path = testing::TempDir() + "rollcall_pipe.jpg";
  std::remove(path.c_str());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::vector<std::byte> buffer;
  EXPECT_EQ(read_file(path, buffer).error().kind, ErrorKind::NoInput);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace rollcall::data

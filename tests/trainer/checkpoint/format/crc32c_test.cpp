#include "trainer/storage/crc.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

namespace rollcall::checkpoint::format {
namespace {

std::vector<std::byte> bytes_from(std::size_t count, int (*value)(std::size_t)) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<std::byte>(value(i));
  }
  return bytes;
}

TEST(Crc32c, AgreesWithTheExamplesOfRfc3720) {
  EXPECT_EQ(storage::crc32c(bytes_from(32, [](std::size_t) { return 0; })), 0x8a9136aaU);
  EXPECT_EQ(storage::crc32c(bytes_from(32, [](std::size_t) { return 0xff; })), 0x62a8ab43U);
  EXPECT_EQ(storage::crc32c(bytes_from(32, [](std::size_t i) { return static_cast<int>(i); })), 0x46dd794eU);
  EXPECT_EQ(storage::crc32c(bytes_from(32, [](std::size_t i) { return 31 - static_cast<int>(i); })), 0x113fdb5cU);
}

TEST(Crc32c, GivesTheStandardCheckValue) {
  constexpr std::string_view kCheck = "123456789";
  EXPECT_EQ(storage::crc32c(std::as_bytes(std::span(kCheck))), 0xe3069283U);
}

TEST(Crc32c, IsZeroForEmptyInput) { EXPECT_EQ(storage::crc32c({}), 0U); }

TEST(Crc32c, CombinesPiecesToTheValueOfTheWhole) {
  const auto bytes = bytes_from(1000, [](std::size_t i) { return static_cast<int>(i * 7 % 251); });
  const std::span<const std::byte> whole(bytes);
  for (std::size_t cut = 0; cut <= bytes.size(); cut += 37) {
    EXPECT_EQ(storage::crc32c(whole.subspan(cut), storage::crc32c(whole.first(cut))), storage::crc32c(whole)) << cut;
    const auto rest = whole.subspan(cut);
    EXPECT_EQ(storage::crc32c_combine(storage::crc32c(whole.first(cut)), storage::crc32c(rest), rest.size()),
              storage::crc32c(whole))
        << cut;
  }
}

}  // namespace
}  // namespace rollcall::checkpoint::format

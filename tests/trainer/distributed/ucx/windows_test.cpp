#include "trainer/distributed/backends/ucx/engine/windows.h"

#include <gtest/gtest.h>
#include <cstdlib>
#include <optional>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group::ucx {
namespace {

TEST(Windows, WhatOneRankWritesTheOtherSees) {
  const Windows writer(2);
  Windows reader(2);
  ASSERT_TRUE(reader.see(0, process_identity(), writer.card()));
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    writer.own(turn)[0] = writer.own(turn)[Windows::kBytes - 1] = std::byte(turn + 1);
  }
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const std::byte* const seen = reader.of_peers(turn)[0];
    EXPECT_EQ(seen[0], std::byte(turn % 2 + 1));
    EXPECT_EQ(seen[Windows::kBytes - 1], std::byte(turn % 2 + 1));
  }
  EXPECT_EQ(reader.of_peers(0)[1], nullptr) << "not seen";
}

TEST(Windows, OutliveTheirRankWhileOthersSeeThem) {
  std::optional<Windows> writer(2);
  Windows reader(2);
  ASSERT_TRUE(reader.see(0, process_identity(), writer->card()));
  writer->own(0)[5] = std::byte{7};
  writer.reset();
  EXPECT_EQ(reader.of_peers(0)[0][5], std::byte{7});
}

TEST(Windows, NothingElseIsTakenForThem) {
  const Windows writer(2);
  Windows reader(2);
  EXPECT_FALSE(reader.see(0, "another host's boot pid:[1] 1", writer.card()));
  EXPECT_FALSE(reader.see(0, process_identity(), ""));
  std::string another_number = writer.card();
  another_number.back() = static_cast<char>(another_number.back() + 1);
  EXPECT_FALSE(reader.see(0, process_identity(), another_number));
  std::string no_descriptor = writer.card();
  no_descriptor[1] = 127;
  EXPECT_FALSE(reader.see(0, process_identity(), no_descriptor));
}

TEST(Windows, AreUsedWhereAllTransportsThroughSharedMemoryAre) {
  for (const auto* transports : {"all", "sm", "tcp,shm", "^tcp", "^ib,cma"}) {
    setenv("UCX_TLS", transports, 1);
    EXPECT_TRUE(may_use_windows()) << transports;
  }
  for (const auto* transports : {"tcp", "posix,tcp", "mm", "self", "^sm", "^tcp,posix", ""}) {
    setenv("UCX_TLS", transports, 1);
    EXPECT_FALSE(may_use_windows()) << transports;
  }
  unsetenv("UCX_TLS");
  EXPECT_TRUE(may_use_windows());
}

}  // namespace
}  // namespace rollcall::process_group::ucx

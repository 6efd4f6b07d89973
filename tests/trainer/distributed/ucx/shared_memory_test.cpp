#include "trainer/distributed/backends/ucx/engine/shared_memory.h"

#include <gtest/gtest.h>
#include <cstdlib>
#include <optional>

#include "trainer/distributed/processes/processes.h"

namespace rollcall::process_group::ucx {
namespace {

TEST(SharedSegments, ShareWritesBetweenRanks) {
  const SharedSegments writer(2);
  SharedSegments reader(2);
  ASSERT_TRUE(reader.map_peer(0, process_identity(), writer.handle()));
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    writer.own(turn)[0] = writer.own(turn)[SharedSegments::kBytes - 1] = std::byte(turn + 1);
  }
  for (std::uint64_t turn = 0; turn < 4; ++turn) {
    const std::byte* const seen = reader.peer_parts(turn)[0];
    EXPECT_EQ(seen[0], std::byte(turn % 2 + 1));
    EXPECT_EQ(seen[SharedSegments::kBytes - 1], std::byte(turn % 2 + 1));
  }
  EXPECT_EQ(reader.peer_parts(0)[1], nullptr) << "not seen";
}

TEST(SharedSegments, OutliveTheirRankWhileMapped) {
  std::optional<SharedSegments> writer(2);
  SharedSegments reader(2);
  ASSERT_TRUE(reader.map_peer(0, process_identity(), writer->handle()));
  writer->own(0)[5] = std::byte{7};
  writer.reset();
  EXPECT_EQ(reader.peer_parts(0)[0][5], std::byte{7});
}

TEST(SharedSegments, RejectInvalidHandles) {
  const SharedSegments writer(2);
  SharedSegments reader(2);
  EXPECT_FALSE(reader.map_peer(0, "another host's boot pid:[1] 1", writer.handle()));
  EXPECT_FALSE(reader.map_peer(0, process_identity(), ""));
  std::string another_number = writer.handle();
  another_number.back() = static_cast<char>(another_number.back() + 1);
  EXPECT_FALSE(reader.map_peer(0, process_identity(), another_number));
  std::string no_descriptor = writer.handle();
  no_descriptor[1] = 127;
  EXPECT_FALSE(reader.map_peer(0, process_identity(), no_descriptor));
}

TEST(SharedSegments, AreUsedOnlyIfUcxTlsAllowsAllSharedMemoryTransports) {
  for (const auto* transports : {"all", "sm", "tcp,shm", "^tcp", "^ib,cma"}) {
    setenv("UCX_TLS", transports, 1);
    EXPECT_TRUE(may_use_shared_segments()) << transports;
  }
  for (const auto* transports : {"tcp", "posix,tcp", "mm", "self", "^sm", "^tcp,posix", ""}) {
    setenv("UCX_TLS", transports, 1);
    EXPECT_FALSE(may_use_shared_segments()) << transports;
  }
  unsetenv("UCX_TLS");
  EXPECT_TRUE(may_use_shared_segments());
}

}  // namespace
}  // namespace rollcall::process_group::ucx

#include "trainer/device/nccl_log.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "tests/support/temporary_folder.h"

namespace rollcall::device {
namespace {

// Log lines published by users of NCCL, with fictitious addresses and names.
constexpr const char* kInfiniBand =
    "gcn6:1080641:1080641 [0] NCCL INFO Bootstrap : Using eno1np0:192.0.2.6<0>\n"
    "gcn6:1080641:1080641 [0] NCCL INFO NET/Plugin : No plugin found (libnccl-net.so), using internal implementation\n"
    "gcn6:1080641:1080641 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/RoCE [RO]; OOB "
    "eno1np0:192.0.2.6<0>\n"
    "gcn6:1080641:1080641 [0] NCCL INFO Using network IB\n";
constexpr const char* kTcp =
    "node0:4744:4763 [0] NCCL INFO NET/IB : No device found.\n"
    "node0:4744:4763 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.7<0>\n"
    "node0:4744:4763 [0] NCCL INFO Using network Socket\n"
    "node0:4744:4763 [0] NCCL INFO NET/Socket : GPU Direct RDMA Disabled for HCA 0 'eth0'\n";

TEST(NcclLog, FindsTheNetworkInUse) {
  EXPECT_EQ(network_of(kInfiniBand), "IB");
  EXPECT_EQ(network_of(kTcp), "Socket");
  EXPECT_EQ(network_of(std::string(kInfiniBand) + kTcp), "Socket");  // that of the last communicator
  EXPECT_EQ(network_of("nid1: NCCL INFO Using network AWS Libfabric\n"), "AWS");
  EXPECT_EQ(network_of("nid1: NCCL INFO Using network IB"), "IB");
  EXPECT_EQ(network_of("nid1: NCCL INFO NET/IB : Using [0]mlx5_0:1/IB\n"), "");
  EXPECT_EQ(network_of(""), "");
}

TEST(NcclLog, DetectsWarnings) {
  EXPECT_FALSE(has_warning(kTcp));
  EXPECT_TRUE(has_warning("node0:4744:4763 [0] transport/p2p.cc:238 NCCL WARN failed to open CUDA IPC handle : 217"));
}

/// Runs `work` in a process of its own, since what it sets stays set; whether it returned true.
bool in_child(const std::function<bool()>& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (const char* const name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
      ::unsetenv(name);
    }
    ::_exit(work() ? 0 : 1);
  }
  int status = 1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status == 0;
}

TEST(NcclLog, ReadsWhatNcclWritesToItsDebugFile) {
  EXPECT_TRUE(in_child([] {
    keep_nccl_log();
    keep_nccl_log();  // of the next world, after a rank was lost
    const bool empty_at_first = nccl_log().empty();
    std::FILE* const file = std::fopen(::getenv("NCCL_DEBUG_FILE"), "w");  // as NCCL opens it
    std::fputs("first\n", file);
    std::fflush(file);
    const bool told = nccl_log() == "first\n";
    std::fputs("second\n", file);
    std::fclose(file);
    return empty_at_first && told && nccl_log() == "first\nsecond\n" && ::getenv("NCCL_DEBUG") == std::string("INFO") &&
           ::getenv("NCCL_DEBUG_SUBSYS") == std::string("INIT,NET");
  }));
}

TEST(NcclLog, IsDisabledIfTheUserSetsAnNcclDebugVariable) {
  for (const char* const name : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
    EXPECT_TRUE(in_child([name] {
      ::setenv(name, "mine", 1);
      keep_nccl_log();
      int set = 0;
      for (const char* const other : {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}) {
        set += ::getenv(other) != nullptr ? 1 : 0;
      }
      return set == 1 && ::getenv(name) == std::string("mine") && nccl_log().empty();
    })) << name;
  }
}

TEST(NcclLog, KeepsTheLastMebibyteOfALongLog) {
  EXPECT_TRUE(in_child([] {
    keep_nccl_log();
    std::FILE* const file = std::fopen(::getenv("NCCL_DEBUG_FILE"), "w");
    for (int i = 0; i < 200'000; ++i) {
      std::fputs("a line of it\n", file);
    }
    std::fputs("NCCL WARN last\n", file);
    std::fclose(file);
    const std::string log = nccl_log();
    return log.size() == 1 << 20 && log.ends_with("NCCL WARN last\n");
  }));
}

TEST(NcclLog, IsDisabledIfNcclConfSetsDebugging) {
  const test::TemporaryFolder home;
  std::ofstream(home.file(".nccl.conf")) << "NCCL_IB_HCA=mlx5\nNCCL_DEBUG=WARN\n";
  EXPECT_TRUE(in_child([&home] {
    ::setenv("HOME", home.path().c_str(), 1);
    keep_nccl_log();
    return ::getenv("NCCL_DEBUG") == nullptr;
  }));
}

TEST(NcclLog, DetectsInfiniBandAdaptersWithAnActivePort) {
  const test::TemporaryFolder root;
  const auto port = [&root](const std::string& adapter, const std::string& state, const std::string& layer) {
    const std::filesystem::path folder = root.file("sys/class/infiniband/" + adapter + "/ports/1");
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "state") << state << '\n';
    std::ofstream(folder / "link_layer") << layer << '\n';
  };
  EXPECT_EQ(active_infiniband(root.path()), "");
  port("mlx5_0", "4: ACTIVE", "Ethernet");
  port("mlx5_1", "1: DOWN", "InfiniBand");
  EXPECT_EQ(active_infiniband(root.path()), "");
  port("mlx5_3", "4: ACTIVE", "InfiniBand");
  port("mlx5_2", "4: ACTIVE", "InfiniBand");
  EXPECT_EQ(active_infiniband(root.path()), "mlx5_2");
}

}  // namespace
}  // namespace rollcall::device

#include "trainer/train/workers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/this_process.h"
#include "tests/support/temporary_folder.h"
#include "trainer/data/loader/device_prefetcher.h"

namespace rollcall::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kPlenty = std::uint64_t{1} << 40;
/// A batch of 1 MiB.
const data::LoaderOptions kMebibyte{.workers = 1, .prefetch = 2, .batch_size = 256, .image_size = 18};
constexpr std::uint64_t kBatch = 256 * 3 * 18 * 18 * 4;

int at_first(std::uint32_t cpus, std::uint32_t compute_cpus, std::uint64_t memory = kPlenty) {
  return workers_at_first(std::nullopt, {cpus, compute_cpus, memory}, kMebibyte);
}

TEST(InitialWorkers, AreOnePerCpuNotUsedForComputeAndAtLeastOne) {
  EXPECT_EQ(at_first(16, 8), 8);
  EXPECT_EQ(at_first(8, 1), 7);
  EXPECT_EQ(at_first(2, 2), 1);
  EXPECT_EQ(at_first(1, 4), 1);
}

TEST(InitialWorkers, AreTheRequestedNumber) {
  EXPECT_EQ(workers_at_first(0, {16, 1, kPlenty}, kMebibyte), 0);
  EXPECT_EQ(workers_at_first(24, {2, 1, 0}, kMebibyte), 24);
}

TEST(InitialWorkers, ReadAheadAtMostAnEighthOfTheMemory) {
  EXPECT_EQ(at_first(16, 1, 8 * 7 * kBatch), 3);      // 3 * 2 + 1 batches
  EXPECT_EQ(at_first(16, 1, 8 * 7 * kBatch - 1), 2);  // 6 batches: 2 * 2 + 1
  EXPECT_EQ(at_first(16, 1, 0), 1);
}

/// A /sys whose device 0000:3b:00.0 has these CPUs near.
class CpusNear : public testing::Test {
 protected:
  void near(const std::string& list) const {
    const std::filesystem::path folder = root.file("sys/bus/pci/devices/0000:3b:00.0");
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "local_cpulist") << list << '\n';
  }
  [[nodiscard]] std::vector<std::uint32_t> of(const std::vector<std::uint32_t>& allowed,
                                              const std::string& bus = "0000:3B:00.0") const {
    return cpus_near(bus, allowed, root.path());
  }

  test::TemporaryFolder root;
};

TEST_F(CpusNear, AreTheLocalCpusOfTheDeviceInTheTaskMask) {
  near("8-11,24-27");
  EXPECT_THAT(of({6, 7, 8, 9, 24}), ElementsAre(8, 9, 24));
}

TEST_F(CpusNear, AreEmptyIfUnknownOrWithoutEffect) {
  EXPECT_THAT(of({0, 1}), IsEmpty());  // no such device
  near("0-3");
  EXPECT_THAT(of({0, 1}), IsEmpty());  // all of the task's
  EXPECT_THAT(of({8, 9}), IsEmpty());  // none of the task's
  EXPECT_THAT(of({0, 8}, ""), IsEmpty());
  near("");
  EXPECT_THAT(of({0, 8}), IsEmpty());
}

TEST(CpusOfWorkers, AreLocalIfThereIsOnePerWorker) {
  EXPECT_THAT(cpus_of_workers({8, 9}, 2, 1), ElementsAre(8, 9));
  EXPECT_THAT(cpus_of_workers({8, 9}, 3, 1), IsEmpty());
  EXPECT_THAT(cpus_of_workers({8, 9}, 1, 2), ElementsAre(8, 9));
  EXPECT_THAT(cpus_of_workers({8, 9}, 2, 2), IsEmpty());  // so have those of the other rank
  EXPECT_THAT(cpus_of_workers({}, 1, 1), IsEmpty());
}

TEST(BytesReadAhead, EqualTheSizeOfTheRingBuffers) {
  data::LoaderOptions options = kMebibyte;
  options.workers = 3;
  EXPECT_EQ(bytes_read_ahead(options), 7 * kBatch);
  options.workers = 0;
  EXPECT_EQ(bytes_read_ahead(options), 2 * kBatch);
  options.pixel_type = data::PixelType::BFloat16;
  EXPECT_EQ(bytes_read_ahead(options), kBatch);
  options.pinned = true;  // of powers of two
  EXPECT_EQ(bytes_read_ahead(options), std::bit_ceil(kBatch / 2) * 2);
}

TEST(BytesReadAhead, AreOfEightBatchesInPageLockedMemory) {
  constexpr std::uint64_t kMiB = 1 << 20;
  data::LoaderOptions options{.workers = 15,
                              .batch_size = 256,
                              .pixel_type = data::PixelType::UInt8,
                              .pinned = true,
                              .held = data::DevicePrefetcher::kInFlight};
  EXPECT_EQ(bytes_read_ahead(options), 8 * 64 * kMiB);  // 36.75 MiB each, of powers of two
  EXPECT_EQ(most_workers({16, 1, 8 * 512 * kMiB}, options), 16);
  options.room_size = 288;
  EXPECT_EQ(bytes_read_ahead(options), 8 * 64 * kMiB);
  options.room_size = 320;
  EXPECT_EQ(bytes_read_ahead(options), 8 * 128 * kMiB);
  options.workers = 1;
  EXPECT_EQ(options.batches_in_memory(), 5);
  options.workers = 15;
  options.batch_size = 4;  // 30 images, and one batch more
  EXPECT_EQ(options.batches_ahead(), 9);
  options.batch_size = 1;
  EXPECT_EQ(options.batches_ahead(), 30);
}

NodeShare share(const char* cpus_on_node, std::uint32_t ranks, bool on_gpu = false) {
  Environment environment;
  environment.set("SLURM_CPUS_ON_NODE", cpus_on_node);
  return share_of_node(environment, ranks, on_gpu);
}

TEST(ShareOfNode, IsAnEqualPartOfTheCpusWithinTheProcessMask) {
  EXPECT_EQ(share("1000000", 1).cpus, number_of_cpus());
  EXPECT_EQ(share("1000000", 1000000).cpus, 1U);
  EXPECT_EQ(share("1000000", 2000000).cpus, 1U);
  EXPECT_EQ(share("4", 4).cpus, 1U);
  EXPECT_EQ(share("4", 4).memory, memory_limit() / 4);
  EXPECT_EQ(share("4", 1, true).compute_cpus, 1U);
  EXPECT_EQ(share("1000000", 1).sharing, 1U);
  EXPECT_EQ(share("4", 4).sharing, number_of_cpus() > 1 ? 4U : 1U);  // not bound to a CPU of their own
}

/// Steps of 100 ms until another number of workers is wanted; 0 where none is in 1000 steps.
int tuned(WorkerTuning& tuning, double waited, double loading, int* steps = nullptr) {
  for (int step = 1; step <= 1000; ++step) {
    if (const std::optional<int> workers = tuning.after_step(waited, 0.1, loading)) {
      if (steps != nullptr) {
        *steps = step;
      }
      return *workers;
    }
  }
  return 0;
}

TEST(WorkerTuning, AddsWorkersUntilLoadingIsAFifthFasterThanCompute) {
  WorkerTuning tuning(1, 64);
  int steps = 0;
  EXPECT_EQ(tuned(tuning, 0.08, 0.1, &steps), 6);  // 100 ms of loading in 20 ms of computing
  EXPECT_EQ(steps, 20);                            // of which the first four do not count
  EXPECT_EQ(tuned(tuning, 0.01, 0.1), 7);          // still waiting: at least one more
}

TEST(WorkerTuning, AddsNoneIfTheRunDoesNotWait) {
  WorkerTuning tuning(1, 64);
  EXPECT_EQ(tuned(tuning, 0.004, 0.5), 0);
}

TEST(WorkerTuning, StaysBelowItsLimit) {
  WorkerTuning tuning(1, 4);
  EXPECT_EQ(tuned(tuning, 0.08, 1), 4);
  EXPECT_EQ(tuned(tuning, 0.08, 1), 0);
  WorkerTuning full(4, 4);
  EXPECT_EQ(tuned(full, 0.08, 1), 0);
  WorkerTuning off;
  EXPECT_EQ(tuned(off, 0.08, 1), 0);
}

TEST(WorkerTuning, EndsAfterTheFirstWindows) {
  WorkerTuning tuning(1, 64);
  for (int workers = 2; workers <= 6; ++workers) {
    EXPECT_EQ(tuned(tuning, 0.01, 0.0), workers);
  }
  EXPECT_EQ(tuned(tuning, 0.01, 0.0), 0);
}

TEST(WorkerTuning, MeasuresForAtLeastASecond) {
  WorkerTuning tuning(1, 64);
  int steps = 0;
  while (!tuning.after_step(0.005, 0.01, 0.01)) {
    steps += 1;
    ASSERT_LT(steps, 1000);
  }
  EXPECT_NEAR(steps, 4 + 100, 1);
}

}  // namespace
}  // namespace rollcall::train

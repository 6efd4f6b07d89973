#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <random>

#include "tests/support/system_calls.h"
#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/format/file_state.h"
#include "trainer/storage/file.h"

namespace rollcall::checkpoint::format {
namespace {

using testing::HasSubstr;
using testing::StartsWith;
using testing_support::Call;
using testing_support::Fault;
using testing_support::inject;
using testing_support::stop;

/// Large enough for O_DIRECT and several pieces.
struct LargeContent {
  explicit LargeContent(std::int64_t mark) : values(400'000), step(mark) {
    std::iota(values.begin(), values.end(), static_cast<std::int32_t>(mark));
    content.tensors = {
        {"/model/large", "large", DType::Int32, {400, 1000}, std::as_bytes(std::span(values))},
        {"/model/small", "small", DType::Int32, {9}, std::as_bytes(std::span(values)).first(36)},
    };
    content.values = {{"/progress/global_step", step}};
  }
  LargeContent(const LargeContent&) = delete;
  LargeContent& operator=(const LargeContent&) = delete;

  std::vector<std::int32_t> values;
  std::int64_t step;
  Content content;
};

/// A folder with a committed checkpoint of step 1, into which step 2 is going to be written.
class CheckpointWithFaults : public testing::TestWithParam<ReadBack> {
 protected:
  CheckpointWithFaults() {
    EXPECT_TRUE(write_checkpoint(path(1), first.content, {}));
    inject(Call::Rename, 0, Fault::Error);
  }
  ~CheckpointWithFaults() override { stop(); }

  [[nodiscard]] std::string path(std::int64_t step) const { return folder.file(checkpoint_name(step)); }

  /// Writes step 2 with a fault; how many calls of the kind there were.
  std::size_t write_with(Call call, std::size_t nth, Fault fault, int error_number) {
    inject(call, nth, fault, error_number);
    outcome = write_checkpoint(path(2), second.content, {.read_back = GetParam(), .threads = 1});
    return stop();
  }

  /// Either step 2 is complete, or an error was returned and only step 1 exists, unchanged.
  void expect_all_or_nothing(const std::string& what) {
    const auto found = load_latest(folder.path());
    ASSERT_TRUE(found) << what << ": " << found.error().message();
    EXPECT_EQ(found->path, path(outcome ? 2 : 1)) << what;
    EXPECT_TRUE(same_content(found->loaded.content, outcome ? second.content : first.content)) << what;
    EXPECT_TRUE(found->warnings.empty()) << what;
    EXPECT_EQ(folder.names().size(), outcome ? 2U : 1U) << what;
    ::unlink(path(2).c_str());
  }

  TemporaryFolder folder;
  LargeContent first{1};
  LargeContent second{2};
  Result<void> outcome;
};

TEST_P(CheckpointWithFaults, EveryFailedWriteIsAnErrorAndThePreviousCheckpointStays) {
  const std::size_t writes = write_with(Call::Write, 0, Fault::Error, 0);
  ASSERT_GE(writes, 10U);
  expect_all_or_nothing("no fault");
  for (const int error_number : {EIO, ENOSPC, EDQUOT}) {
    for (std::size_t nth = 1; nth <= writes; ++nth) {
      write_with(Call::Write, nth, Fault::Error, error_number);
      ASSERT_FALSE(outcome) << nth;
      EXPECT_EQ(outcome.error().exit_code(), nth == 1 ? ExitCode::CannotCreate : ExitCode::InputOutput);
      EXPECT_THAT(outcome.error().message(), HasSubstr(errno_text(error_number))) << nth;
      EXPECT_THAT(outcome.error().action,
                  StartsWith(error_number == EIO ? "having the file system checked" : "freeing space or quota there"))
          << nth;
      expect_all_or_nothing("write " + std::to_string(nth));
    }
  }
}

TEST_P(CheckpointWithFaults, ShortWritesAreContinued) {
  const std::size_t writes = write_with(Call::Write, 0, Fault::Error, 0);
  expect_all_or_nothing("no fault");
  for (std::size_t nth = 1; nth <= writes; ++nth) {
    write_with(Call::Write, nth, Fault::Short, 0);
    EXPECT_TRUE(outcome) << nth << ": " << outcome.error().message();
    expect_all_or_nothing("write " + std::to_string(nth));
  }
}

TEST_P(CheckpointWithFaults, ReadBackDetectsLostOrCorruptedWrites) {
  const std::size_t writes = write_with(Call::Write, 0, Fault::Error, 0);
  expect_all_or_nothing("no fault");
  std::size_t noticed = 0;
  for (const Fault fault : {Fault::Lost, Fault::Flipped}) {
    for (std::size_t nth = 1; nth <= writes; ++nth) {
      write_with(Call::Write, nth, fault, 0);
      noticed += outcome ? 0U : 1U;
      expect_all_or_nothing("write " + std::to_string(nth));
    }
  }
  EXPECT_GE(noticed, writes);  // the others fell into padding, or into what HDF5 wrote anew
}

TEST_P(CheckpointWithFaults, EveryFailedFsyncRenameOrAllocationIsAnError) {
  for (const Call call : {Call::Sync, Call::Rename, Call::Allocate}) {
    const std::size_t calls = write_with(call, 0, Fault::Error, 0);
    expect_all_or_nothing("no fault");
    ASSERT_GE(calls, 1U);
    for (const int error_number : {EIO, ENOSPC, EROFS}) {
      for (std::size_t nth = 1; nth <= calls; ++nth) {
        write_with(call, nth, Fault::Error, error_number);
        ASSERT_FALSE(outcome) << nth;
        EXPECT_THAT(outcome.error().action, StartsWith(error_number == EIO      ? "having the file system checked"
                                                       : error_number == ENOSPC ? "freeing space or quota there"
                                                                                : "checking your permissions there"))
            << nth;
        const bool only_folder = call == Call::Sync && nth == calls;  // the file has its name, and may lose it again
        if (!only_folder) {
          expect_all_or_nothing("call " + std::to_string(nth));
        }
        ::unlink(path(2).c_str());
      }
    }
  }
}

TEST_P(CheckpointWithFaults, SavesWithoutSupportForFallocate) {
  write_with(Call::Allocate, 1, Fault::Error, EOPNOTSUPP);
  EXPECT_TRUE(outcome);
  expect_all_or_nothing("");
}

TEST_P(CheckpointWithFaults, FailedReadsAreErrorsAndShortReadsAreContinued) {
  inject(Call::Read, 0, Fault::Error);
  ASSERT_TRUE(read_checkpoint(path(1)));
  const std::size_t reads = stop();
  for (std::size_t nth = 1; nth <= reads; ++nth) {
    inject(Call::Read, nth, Fault::Error, EIO);
    const auto failed = read_checkpoint(path(1));
    ASSERT_FALSE(failed) << nth;
    EXPECT_EQ(failed.error().kind, ErrorKind::InputOutput);
    inject(Call::Read, nth, Fault::Short);
    const auto read = read_checkpoint(path(1));
    ASSERT_TRUE(read) << nth;
    EXPECT_TRUE(same_content(read->content, first.content));
  }
}

// An error of the file system may be gone in a minute; a checkpoint that is set aside for it is lost to the run.
TEST_P(CheckpointWithFaults, FailedReadsNeitherMarkACheckpointDamagedNorFallBack) {
  ASSERT_TRUE(write_checkpoint(path(2), second.content, {}));
  inject(Call::Read, 0, Fault::Error);
  ASSERT_TRUE(load_latest(folder.path()));
  const std::size_t reads = stop();
  for (const Fault fault : {Fault::Error, Fault::Lasting}) {
    for (std::size_t nth = 1; nth <= reads; ++nth) {
      inject(Call::Read, nth, fault, EIO);
      const auto latest = load_latest(folder.path());
      stop();
      ASSERT_FALSE(latest) << nth;
      EXPECT_EQ(latest.error().kind, ErrorKind::InputOutput) << nth;
      ASSERT_EQ(folder.names(), (std::vector<std::string>{checkpoint_name(1), checkpoint_name(2)})) << nth;
    }
  }
}

TEST_P(CheckpointWithFaults, FilesTruncatedAtAnyPageAreNeverLoaded) {
  const std::vector<char> sound = file_bytes(path(1));
  for (std::size_t length = 0; length < sound.size(); length += 4096) {
    write_file(path(2), std::vector<char>(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(length)));
    const FileStatus status = examine(path(2), VerifyLevel::Metadata);
    EXPECT_EQ(status.state, FileState::Damaged) << length;
  }
}

INSTANTIATE_TEST_SUITE_P(ReadBack, CheckpointWithFaults, testing::Values(ReadBack::Memory, ReadBack::Device),
                         [](const auto& tested) { return tested.param == ReadBack::Memory ? "Memory" : "Device"; });

TEST(FlippedBits, AreDetectedUnlessInPadding) {
  const TemporaryFolder folder;
  const std::string path = folder.file(checkpoint_name(1));
  const SampleContent sample(5);
  ASSERT_TRUE(write_checkpoint(path, sample.content, {}));
  const std::vector<char> sound = file_bytes(path);
  const storage::File file(path, O_RDWR);
  std::mt19937_64 random(3);
  std::size_t unnoticed = 0;
  for (std::size_t at = 0; at < sound.size(); ++at) {
    const auto flipped = static_cast<std::byte>(sound[at] ^ (1 << random() % 8));
    ASSERT_TRUE(file.write_at(std::span(&flipped, 1), at));
    if (verify_file(path, VerifyLevel::Full)) {
      ++unnoticed;
      const auto read = read_checkpoint(path);
      EXPECT_TRUE(read && same_content(read->content, sample.content)) << at;
    }
    const auto original = static_cast<std::byte>(sound[at]);
    ASSERT_TRUE(file.write_at(std::span(&original, 1), at));
  }
  EXPECT_LT(unnoticed, 64 * (sample.content.tensors.size() + sample.content.values.size()));
  EXPECT_TRUE(verify_file(path, VerifyLevel::Full));
}

TEST(FullFileSystem, IsAnErrorAndThePreviousCheckpointStays) {
  const TemporaryFolder folder;
  if (::mount("none", folder.path().c_str(), "tmpfs", 0, "size=3m") != 0) {
    GTEST_SKIP() << "mounting a tmpfs is refused here: " << errno_text(errno);
  }
  const LargeContent first(1);
  const LargeContent second(2);
  EXPECT_TRUE(write_checkpoint(folder.file(checkpoint_name(1)), first.content, {}));
  const auto full = write_checkpoint(folder.file(checkpoint_name(2)), second.content, {});
  EXPECT_FALSE(full);
  if (!full) {
    EXPECT_EQ(full.error().kind, ErrorKind::InputOutput);
    EXPECT_THAT(full.error().message(), HasSubstr("No space left on device"));
  }
  const auto found = load_latest(folder.path());
  EXPECT_TRUE(found && same_content(found->loaded.content, first.content));
  EXPECT_EQ(folder.names().size(), 1U);
  ::umount(folder.path().c_str());
}

}  // namespace
}  // namespace rollcall::checkpoint::format

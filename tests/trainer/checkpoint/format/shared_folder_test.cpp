#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/format/folder.h"
#include "trainer/checkpoint/format/hdf5_structures.h"
#include "trainer/storage/hdf5.h"

// Folders that other users can write to as well.
namespace rollcall::checkpoint::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Another user, whose files only root can create.
constexpr uid_t kAnother = 4711;

TEST(CheckpointFolder, RejectsACheckpointOfAnotherUserWithoutRenamingIt) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  const TemporaryFolder folder;
  write_sample_step(folder, 10);
  write_sample_step(folder, 20);
  const std::string newest = folder.file(checkpoint_name(20));
  ASSERT_EQ(::chown(newest.c_str(), kAnother, kAnother), 0);
  const auto used = load_latest(folder.path());
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().kind, ErrorKind::Mismatch);
  EXPECT_THAT(used.error().message(), HasSubstr("step-00000020.h5 belongs to user 4711"));
  EXPECT_THAT(used.error().message(), HasSubstr("--resume=" + newest));
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000020.h5"));
}

TEST(CheckpointFolder, DoesNotReadAFileOfAnotherUser) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  const TemporaryFolder folder;
  const std::string forged = folder.file(checkpoint_name(20));
  write_file(forged, {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n', 'x'});
  EXPECT_EQ(CheckpointReader::open(forged, Owner::ThisUser).error().kind, ErrorKind::BadData);
  ASSERT_EQ(::chown(forged.c_str(), kAnother, kAnother), 0);
  EXPECT_EQ(CheckpointReader::open(forged, Owner::ThisUser).error().kind, ErrorKind::Mismatch);
}

TEST(CheckpointFolder, RejectsALinkOfAnotherUserToAnOwnFile) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a link of another user";
  }
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  write_sample_step(elsewhere, 20);
  const std::string link = folder.file(checkpoint_name(20));
  std::filesystem::create_symlink(elsewhere.file(checkpoint_name(20)), link);
  EXPECT_TRUE(load_latest(folder.path()));
  ASSERT_EQ(::lchown(link.c_str(), kAnother, kAnother), 0);
  const auto used = load_latest(folder.path());
  ASSERT_FALSE(used);
  EXPECT_THAT(used.error().message(), HasSubstr("belongs to user 4711"));
}

TEST(CheckpointFolder, WarnsWhenOthersMayWriteToTheCheckpoint) {
  const TemporaryFolder folder;
  write_sample_step(folder, 10);
  ASSERT_EQ(::chmod(folder.file(checkpoint_name(10)).c_str(), 0646), 0);
  const auto used = load_latest(folder.path());
  ASSERT_TRUE(used) << used.error().message();
  EXPECT_THAT(used->warnings, ElementsAre(HasSubstr("step-00000010.h5: everybody may write to it")));
}

TEST(CheckpointFolder, CheckpointsAreNotWritableByOthersUnderAnyUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  write_sample_step(folder, 10);
  ::umask(before);
  EXPECT_THAT(load_latest(folder.path())->warnings, ElementsAre());
}

TEST(CheckpointFolder, TemporaryFilesAreNotWritableByOthersAndCreatedExclusively) {
  const TemporaryFolder folder;
  std::vector<ManifestEntry> none;
  const mode_t before = ::umask(0);
  const auto made = Hdf5Structures::create(folder.file("a.h5"), {}, none);
  ::umask(before);
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(exposure(folder.file("a.h5")), "");
  const auto again = Hdf5Structures::create(folder.file("a.h5"), {}, none);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message(), HasSubstr("cannot be created: File exists"));
}

TEST(CheckpointFolder, DoesNotFollowALinkThatReplacesTheTemporaryFile) {
  const TemporaryFolder folder;
  Manifest manifest;
  auto made = Hdf5Structures::create(folder.file("a.h5"), {}, manifest.datasets);
  ASSERT_TRUE(made) << made.error().message();
  std::filesystem::rename(folder.file("a.h5"), folder.file("away.h5"));
  write_file(folder.file("precious"), {'x'});
  std::filesystem::create_symlink("precious", folder.file("a.h5"));
  ASSERT_TRUE(made->finish(manifest));
  EXPECT_TRUE(made->check(manifest.datasets)) << "looks at another file";
  EXPECT_EQ(file_bytes(folder.file("precious")), std::vector<char>{'x'});

  const storage::File away(folder.file("away.h5"), O_RDONLY);
  const std::string path = storage::hdf5_path(away, folder.file("a.h5"));
  EXPECT_TRUE(std::filesystem::equivalent(path, folder.file("away.h5")));
}

TEST(CheckpointFolder, NamesTheOwnerOfAConflictingFileInAStickyFolder) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can act for two users";
  }
  const TemporaryFolder folder;
  ASSERT_EQ(::chmod(folder.path().c_str(), 01777), 0);
  const std::string taken = folder.file(checkpoint_name(10));
  write_file(taken, {'x'});
  ASSERT_EQ(::chown(taken.c_str(), kAnother, kAnother), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool dropped = ::setgid(kAnother + 1) == 0 && ::setuid(kAnother + 1) == 0;
    const auto written = write_checkpoint(taken, SampleContent(10).content, {});
    const bool told = !written && written.error().message().find("belongs to user 4711") != std::string::npos;
    ::_exit(dropped && told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5"));
}

TEST(CheckpointFolder, NeitherCountsNorRenamesNorRemovesFilesOfOtherUsers) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  const TemporaryFolder folder;
  for (const std::int64_t step : {7, 8, 9, 99}) {
    write_sample_step(folder, step);
    ASSERT_EQ(::chown(folder.file(checkpoint_name(step)).c_str(), kAnother, kAnother), 0);
  }
  for (const std::int64_t step : {5, 6, 10}) {
    write_sample_step(folder, step);
  }
  tidy_folder(folder.path(), 10, /*best_step=*/8, {.keep_last = 2});  // whose work this user went on with
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000006.h5", "step-00000007.h5", "step-00000008.h5",
                                          "step-00000009.h5", "step-00000010.h5", "step-00000099.h5"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("best.h5")), checkpoint_name(8));
}

TEST(CheckpointFolder, ReportsWhoElseCanWriteToIt) {
  const TemporaryFolder folder;
  EXPECT_EQ(exposure(folder.path()), "");
  EXPECT_EQ(exposure(folder.file("absent")), "");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0777), 0);
  EXPECT_EQ(exposure(folder.path()), "everybody may write to it");
  ASSERT_EQ(::chmod(folder.path().c_str(), 0755), 0);
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(folder.path().c_str(), kAnother, kAnother), 0);
    EXPECT_EQ(exposure(folder.path()), "user 4711 owns it");
    EXPECT_THAT(folder.names(), ElementsAre());
  }
}

TEST(CheckpointFolder, ReportsWhoElseCanReplaceIt) {
  const TemporaryFolder parent;
  const std::string folder = parent.file("run");
  const std::string link = parent.file("link");
  std::filesystem::create_directory(folder);
  std::filesystem::create_directory_symlink(folder, link);
  ASSERT_EQ(::chmod(parent.path().c_str(), 01777), 0);  // as /tmp
  EXPECT_EQ(exposure(folder), "");
  EXPECT_EQ(exposure(link), "");
  ASSERT_EQ(::chmod(parent.path().c_str(), 0777), 0);
  for (const std::string& name : {folder, folder + "/", link}) {
    EXPECT_THAT(exposure(name), HasSubstr("everybody may rename it (permissions of"));
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::lchown(link.c_str(), kAnother, kAnother), 0);
    EXPECT_EQ(exposure(link), "user 4711 owns the link");
    EXPECT_EQ(exposure(link + "/"), "user 4711 owns the link");
  }
}

}  // namespace
}  // namespace rollcall::checkpoint::format

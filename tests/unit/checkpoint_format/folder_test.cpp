#include "trainer/checkpoint/format/folder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <thread>

#include "runtime/base/this_process.h"
#include "tests/support/socket_group.h"
#include "tests/unit/checkpoint_format/sample_content.h"
#include "trainer/checkpoint/format/hdf5_structures.h"
#include "trainer/storage/hdf5.h"

namespace rollcall::checkpoint::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void write_step(const TemporaryFolder& folder, std::int64_t step) {
  ASSERT_TRUE(write_checkpoint(folder.file(checkpoint_name(step)), SampleContent(step).content, {}));
}

void damage(const std::string& path) {
  std::vector<char> bytes = file_bytes(path);
  bytes.resize(bytes.size() / 2);
  write_file(path, bytes);
}

std::int64_t step_in(const LoadedCheckpoint& checkpoint) {
  return std::get<std::int64_t>(checkpoint.loaded.content.values.at("/progress/global_step"));
}

TEST(CheckpointFolder, ListsItsCheckpointsNewestFirstAndNothingElse) {
  const TemporaryFolder folder;
  for (const char* name : {"step-00000009.h5", "step-00000100.h5", "step-123456789012.h5", "step-00000011.h5.damaged",
                           "step-00000012.h5.tmp-host-1", "step-x.h5", "step-.h5", "best.h5", "metrics.jsonl"}) {
    write_file(folder.file(name), {});
  }
  std::vector<std::int64_t> steps;
  const auto listed = list_checkpoints(folder.path());
  ASSERT_TRUE(listed);
  for (const ListedCheckpoint& checkpoint : *listed) {
    steps.push_back(checkpoint.step);
  }
  EXPECT_THAT(steps, ElementsAre(123456789012, 100, 9));
  EXPECT_TRUE(list_checkpoints(folder.file("absent"))->empty());
}

TEST(CheckpointFolder, AFolderThatCannotBeListedIsNotTakenForAnEmptyOne) {
  const TemporaryFolder folder;
  write_file(folder.file("a file"), {});
  const auto listed = list_checkpoints(folder.file("a file"));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().exit_code, ExitCode::InputOutput);
  LoneRank alone;
  const auto used = use_latest(folder.file("a file"), alone, [](const CheckpointReader&) { return Result<void>(); });
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().exit_code, ExitCode::InputOutput);
}

TEST(CheckpointFolder, EmptyAndAbsentFoldersHoldNothingUsable) {
  const TemporaryFolder folder;
  EXPECT_EQ(load_latest(folder.path())->path, "");
  EXPECT_EQ(load_latest(folder.file("absent"))->path, "");
}

TEST(CheckpointFolder, DamagedNewestIsRenamedAndTheOneBeforeIsUsed) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {10, 20, 30}) {
    write_step(folder, step);
  }
  damage(folder.file(checkpoint_name(20)));
  damage(folder.file(checkpoint_name(30)));
  const auto usable = load_latest(folder.path());
  ASSERT_TRUE(usable) << usable.error().message();
  EXPECT_EQ(step_in(*usable), 10);
  EXPECT_THAT(usable->warnings,
              ElementsAre(HasSubstr("step-00000030.h5.damaged"), HasSubstr("step-00000020.h5.damaged")));
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000020.h5.damaged", "step-00000030.h5.damaged"));
}

/// Owner of what only root can make another user's.
constexpr uid_t kAnother = 4711;

TEST(CheckpointFolder, AnotherUsersCheckpointIsRefusedByNameAndStaysAsItIs) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  const TemporaryFolder folder;
  write_step(folder, 10);
  write_step(folder, 20);
  const std::string newest = folder.file(checkpoint_name(20));
  ASSERT_EQ(::chown(newest.c_str(), kAnother, kAnother), 0);
  const auto used = load_latest(folder.path());
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().exit_code, ExitCode::Mismatch);
  EXPECT_THAT(used.error().message(), HasSubstr("step-00000020.h5 belongs to user 4711"));
  EXPECT_THAT(used.error().message(), HasSubstr("--resume=" + newest));
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000020.h5"));
}

TEST(CheckpointFolder, WhatAnotherUserLeftIsNotLookedInto) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  const TemporaryFolder folder;
  const std::string forged = folder.file(checkpoint_name(20));
  write_file(forged, {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n', 'x'});  // of format 1.0, by its first bytes
  EXPECT_EQ(CheckpointReader::open(forged, Owner::ThisUser).error().exit_code, ExitCode::BadData);
  ASSERT_EQ(::chown(forged.c_str(), kAnother, kAnother), 0);
  EXPECT_EQ(CheckpointReader::open(forged, Owner::ThisUser).error().exit_code, ExitCode::Mismatch);
}

TEST(CheckpointFolder, AnotherUsersLinkIsRefusedThoughItsTargetIsOwn) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a link of another user";
  }
  const TemporaryFolder folder;
  const TemporaryFolder elsewhere;
  write_step(elsewhere, 20);
  const std::string link = folder.file(checkpoint_name(20));
  std::filesystem::create_symlink(elsewhere.file(checkpoint_name(20)), link);
  EXPECT_TRUE(load_latest(folder.path()));
  ASSERT_EQ(::lchown(link.c_str(), kAnother, kAnother), 0);
  const auto used = load_latest(folder.path());
  ASSERT_FALSE(used);
  EXPECT_THAT(used.error().message(), HasSubstr("belongs to user 4711"));
}

TEST(CheckpointFolder, ACheckpointThatOthersMayWriteIsUsedWithAWarning) {
  const TemporaryFolder folder;
  write_step(folder, 10);
  ASSERT_EQ(::chmod(folder.file(checkpoint_name(10)).c_str(), 0646), 0);
  const auto used = load_latest(folder.path());
  ASSERT_TRUE(used) << used.error().message();
  EXPECT_THAT(used->warnings, ElementsAre(HasSubstr("step-00000010.h5: everybody may write to it")));
}

TEST(CheckpointFolder, NobodyElseMayWriteToACheckpointWhateverTheUmask) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(0);
  write_step(folder, 10);
  ::umask(before);
  EXPECT_THAT(load_latest(folder.path())->warnings, ElementsAre());
}

TEST(CheckpointFolder, NobodyElseMayWriteToACheckpointThatIsBeingMade) {
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

TEST(CheckpointFolder, WhatTakesItsPlaceWhileItIsMadeIsNotTouched) {
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

TEST(CheckpointFolder, ANameThatAnotherUserHasTakenInAStickyFolderIsToldByItsOwner) {
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

TEST(CheckpointFolder, WhatOthersLeftInItIsNeitherCountedNorRenamedNorRemoved) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root can make a file of another user";
  }
  const TemporaryFolder folder;
  for (const std::int64_t step : {7, 8, 9, 99}) {
    write_step(folder, step);
    ASSERT_EQ(::chown(folder.file(checkpoint_name(step)).c_str(), kAnother, kAnother), 0);
  }
  for (const std::int64_t step : {5, 6, 10}) {
    write_step(folder, step);
  }
  tidy_folder(folder.path(), 10, /*best_step=*/8, {.keep_last = 2});  // whose work this user went on with
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000006.h5", "step-00000007.h5", "step-00000008.h5",
                                          "step-00000009.h5", "step-00000010.h5", "step-00000099.h5"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("best.h5")), checkpoint_name(8));
}

TEST(CheckpointFolder, TellsWhoElseCanChangeWhatIsInIt) {
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

TEST(CheckpointFolder, TellsWhoElseCanPutAnotherInItsPlace) {
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
    EXPECT_THAT(exposure(name), HasSubstr("everybody may rename it, by the permissions of"));
  }
  if (::geteuid() == 0) {
    ASSERT_EQ(::lchown(link.c_str(), kAnother, kAnother), 0);
    EXPECT_EQ(exposure(link), "user 4711 owns the link");
    EXPECT_EQ(exposure(link + "/"), "user 4711 owns the link");
  }
}

TEST(CheckpointFolder, AByteThatChangedInAnyPieceOfALargeTensorIsFound) {
  const TemporaryFolder folder;
  const std::vector<float> weights(5 * kPieceBytes / 2 / sizeof(float), 1.0F);  // two pieces and a half
  Content content;
  content.tensors.push_back({"/model/weight",
                             "weight",
                             DType::Float32,
                             {static_cast<std::int64_t>(weights.size())},
                             std::as_bytes(std::span(weights))});
  const std::string path = folder.file(checkpoint_name(1));
  ASSERT_TRUE(write_checkpoint(path, content, {}));
  const std::vector<char> sound = file_bytes(path);
  for (const std::size_t fifth : {1, 3, 5}) {  // the data are nearly all of the file
    std::vector<char> bytes = sound;
    bytes[sound.size() * fifth / 6] ^= 1;
    write_file(path, bytes);
    const auto read = read_checkpoint(path);
    ASSERT_FALSE(read) << fifth;
    EXPECT_EQ(read.error().exit_code, ExitCode::BadData);
    EXPECT_THAT(read.error().message(), HasSubstr("/model/weight"));
  }
}

TEST(CheckpointFolder, WithOnlyDamagedCheckpointsNobodyStartsAfreshUnasked) {
  const TemporaryFolder folder;
  write_step(folder, 10);
  damage(folder.file(checkpoint_name(10)));
  for (int start = 0; start < 2; ++start) {
    const auto usable = load_latest(folder.path());
    ASSERT_FALSE(usable) << start;
    EXPECT_EQ(usable.error().exit_code, ExitCode::BadData);
    EXPECT_THAT(usable.error().message(), HasSubstr("--resume=never"));
  }
}

TEST(CheckpointFolder, KeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  for (std::int64_t step = 10; step <= 60; step += 10) {
    write_step(folder, step);
    tidy_folder(folder.path(), step, /*best_step=*/20, {.keep_last = 2});
  }
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000020.h5", "step-00000050.h5", "step-00000060.h5"));
  const auto best = read_checkpoint(folder.file("best.h5"));
  ASSERT_TRUE(best);
  EXPECT_EQ(std::get<std::int64_t>(best->content.values.at("/progress/global_step")), 20);
}

TEST(CheckpointFolder, TheBestStaysUntilItsSuccessorIsThere) {
  const TemporaryFolder folder;
  const Retention retention{.keep_last = 1, .best_steps = {30, 10, 20}, .keep_best = 1};
  for (const std::int64_t step : {10, 20}) {
    write_step(folder, step);
  }
  std::filesystem::create_directory(folder.file(checkpoint_name(30)));  // what is in a save's way is no checkpoint
  std::filesystem::create_symlink(checkpoint_name(30) + "/nothing", folder.file("best.h5"));
  write_step(folder, 40);
  tidy_folder(folder.path(), 40, /*best_step=*/30, retention);
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000010.h5", "step-00000030.h5", "step-00000040.h5"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("best.h5")), checkpoint_name(10));
  std::filesystem::remove(folder.file(checkpoint_name(30)));
  write_step(folder, 30);
  tidy_folder(folder.path(), 40, /*best_step=*/30, retention);
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000030.h5", "step-00000040.h5"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("best.h5")), checkpoint_name(30));
}

TEST(CheckpointFolder, ALinkToTheBestThatLeadsNowhereGoes) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(checkpoint_name(10), folder.file("best.h5"));
  write_step(folder, 20);
  tidy_folder(folder.path(), 20, -1, {});
  EXPECT_THAT(folder.names(), ElementsAre("step-00000020.h5"));
}

TEST(CheckpointFolder, TheLastOneIsNeverRemoved) {
  const TemporaryFolder folder;
  write_step(folder, 10);
  tidy_folder(folder.path(), 10, -1, {.keep_last = 0});
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5"));
}

TEST(CheckpointFolder, CheckpointsOfAnAbandonedRunNeitherHideNorDisplaceThoseOfTheNewOne) {
  const TemporaryFolder folder;
  write_step(folder, 500);
  write_step(folder, 10);
  tidy_folder(folder.path(), 10, -1, {.keep_last = 1});
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000500.h5.superseded"));
  EXPECT_EQ(step_in(*load_latest(folder.path())), 10);
}

/// What both ranks of a group make of the folder whose newest file rank 1 reads as damaged.
std::array<Result<std::optional<UsedCheckpoint>>, 2> with_a_sick_second_rank(const TemporaryFolder& folder) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  std::array<Result<std::optional<UsedCheckpoint>>, 2> used{std::optional<UsedCheckpoint>(),
                                                            std::optional<UsedCheckpoint>()};
  const auto rank = [&](std::uint32_t number) {
    testing_support::SocketGroup group(number, 2, {ends.at(number)});
    used.at(number) = use_latest(folder.path(), group, [&](const CheckpointReader&) {
      return number == 0 ? Result<void>() : fail("checkpoint", "", "is read wrongly", "", ExitCode::BadData);
    });
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return used;
}

TEST(CheckpointFolder, AFileThatOneRankAloneReadsWronglyIsNotSetAside) {
  const TemporaryFolder folder;
  write_step(folder, 10);
  write_step(folder, 20);
  for (const Result<std::optional<UsedCheckpoint>>& used : with_a_sick_second_rank(folder)) {
    ASSERT_FALSE(used);
    EXPECT_EQ(used.error().exit_code, ExitCode::InputOutput);
    EXPECT_THAT(used.error().message(), HasSubstr("rank 0 that it is sound"));
  }
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000020.h5"));
}

TEST(CheckpointFolder, WhatIsSupersededKeepsAllItsFilesAndNoNameForTheBest) {
  const TemporaryFolder folder;
  for (int times = 0; times < 2; ++times) {
    write_step(folder, 10);
    write_step(folder, 20);
    tidy_folder(folder.path(), 20, /*best_step=*/20, {.keep_last = 2});
    EXPECT_TRUE(supersede(folder.path(), 10));
  }
  EXPECT_THAT(folder.names(),
              ElementsAre("step-00000010.h5", "step-00000020.h5.superseded", "step-00000020.h5.superseded-2"));
  EXPECT_TRUE(supersede(folder.path(), -1));
  EXPECT_EQ(folder.names().front(), "step-00000010.h5.superseded");
}

TEST(CheckpointFolder, TemporaryFilesOfDeadWritersAreRemovedAndOthersLeft) {
  const TemporaryFolder folder;
  const pid_t dead = ::fork();
  if (dead == 0) {
    ::_exit(0);
  }
  ::waitpid(dead, nullptr, 0);
  const std::string stem = "step-00000001.h5.tmp-";
  const std::string of_dead = stem + this_host_name() + "-" + std::to_string(dead);
  const std::string of_living = stem + this_host_name() + "-" + std::to_string(::getppid());
  const std::string of_elsewhere = stem + "other-host-1";
  const std::string of_elsewhere_old = stem + "other-host-2";
  for (const auto& name : {of_dead, of_living, of_elsewhere, of_elsewhere_old, std::string("notes.tmp-x")}) {
    write_file(folder.file(name), {'x'});
  }
  const auto two_days_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(48);
  std::filesystem::last_write_time(folder.file(of_elsewhere_old), two_days_ago);
  const std::string link_of_dead = "step-00000002.h5.tmp-" + this_host_name() + "-" + std::to_string(dead);
  std::filesystem::create_symlink("step-00000002.h5", folder.file(link_of_dead));  // was to become best.h5
  remove_stale_temporaries(folder.path());
  EXPECT_THAT(folder.names(), testing::UnorderedElementsAre("notes.tmp-x", of_elsewhere, of_living));
}

TEST(CheckpointFolder, FolderThatCannotBeMadeIsAnError) {
  const TemporaryFolder folder;
  write_file(folder.file("file"), {});
  const auto prepared = prepare_folder(folder.file("file/checkpoints"));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().exit_code, ExitCode::CannotCreate);
  EXPECT_TRUE(prepare_folder(folder.file("a/b/c")));
}

}  // namespace
}  // namespace rollcall::checkpoint::format

#include "trainer/checkpoint/format/folder.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <array>
#include <thread>

#include "runtime/base/this_process.h"
#include "tests/support/socket_group.h"
#include "tests/trainer/checkpoint/format/sample_content.h"

namespace rollcall::checkpoint::format {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

void damage(const std::string& path) {
  std::vector<char> bytes = file_bytes(path);
  bytes.resize(bytes.size() / 2);
  write_file(path, bytes);
}

std::int64_t step_in(const LoadedCheckpoint& checkpoint) {
  return std::get<std::int64_t>(checkpoint.loaded.content.values.at("/progress/global_step"));
}

TEST(CheckpointFolder, ListsOnlyCheckpointsNewestFirst) {
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

TEST(CheckpointFolder, ReportsAFolderThatCannotBeListed) {
  const TemporaryFolder folder;
  write_file(folder.file("a file"), {});
  const auto listed = list_checkpoints(folder.file("a file"));
  ASSERT_FALSE(listed);
  EXPECT_EQ(listed.error().kind, ErrorKind::InputOutput);
  SingleRank alone;
  const auto used = use_latest(folder.file("a file"), alone, [](const CheckpointReader&) { return Result<void>(); });
  ASSERT_FALSE(used);
  EXPECT_EQ(used.error().kind, ErrorKind::InputOutput);
}

TEST(CheckpointFolder, LoadsNothingFromEmptyOrMissingFolders) {
  const TemporaryFolder folder;
  EXPECT_EQ(load_latest(folder.path())->path, "");
  EXPECT_EQ(load_latest(folder.file("absent"))->path, "");
}

TEST(CheckpointFolder, RenamesDamagedCheckpointsAndLoadsTheNewestIntactOne) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {10, 20, 30}) {
    write_sample_step(folder, step);
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

TEST(CheckpointFolder, DetectsAChangedByteInAnyPieceOfALargeTensor) {
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
  for (const std::size_t fifth : {1U, 3U, 5U}) {  // the data are nearly all of the file
    std::vector<char> bytes = sound;
    bytes[sound.size() * fifth / 6] ^= 1;
    write_file(path, bytes);
    const auto read = read_checkpoint(path);
    ASSERT_FALSE(read) << fifth;
    EXPECT_EQ(read.error().kind, ErrorKind::BadData);
    EXPECT_THAT(read.error().message(), HasSubstr("/model/weight"));
  }
}

TEST(CheckpointFolder, FailsIfAllCheckpointsAreDamaged) {
  const TemporaryFolder folder;
  write_sample_step(folder, 10);
  damage(folder.file(checkpoint_name(10)));
  for (int start = 0; start < 2; ++start) {
    const auto usable = load_latest(folder.path());
    ASSERT_FALSE(usable) << start;
    EXPECT_EQ(usable.error().kind, ErrorKind::BadData);
    EXPECT_THAT(usable.error().message(), HasSubstr("--resume=never"));
  }
}

TEST(CheckpointFolder, KeepsTheNewestAndTheBest) {
  const TemporaryFolder folder;
  for (std::int64_t step = 10; step <= 60; step += 10) {
    write_sample_step(folder, step);
    tidy_folder(folder.path(), step, /*best_step=*/20, {.keep_last = 2});
  }
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000020.h5", "step-00000050.h5", "step-00000060.h5"));
  const auto best = read_checkpoint(folder.file("best.h5"));
  ASSERT_TRUE(best);
  EXPECT_EQ(std::get<std::int64_t>(best->content.values.at("/progress/global_step")), 20);
}

TEST(CheckpointFolder, KeepsTheBestUntilABetterOneIsWritten) {
  const TemporaryFolder folder;
  const Retention retention{.keep_last = 1, .best_steps = {30, 10, 20}, .keep_best = 1};
  for (const std::int64_t step : {10, 20}) {
    write_sample_step(folder, step);
  }
  std::filesystem::create_directory(folder.file(checkpoint_name(30)));  // what is in a save's way is no checkpoint
  std::filesystem::create_symlink(checkpoint_name(30) + "/nothing", folder.file("best.h5"));
  write_sample_step(folder, 40);
  tidy_folder(folder.path(), 40, /*best_step=*/30, retention);
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000010.h5", "step-00000030.h5", "step-00000040.h5"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("best.h5")), checkpoint_name(10));
  std::filesystem::remove(folder.file(checkpoint_name(30)));
  write_sample_step(folder, 30);
  tidy_folder(folder.path(), 40, /*best_step=*/30, retention);
  EXPECT_THAT(folder.names(), ElementsAre("best.h5", "step-00000030.h5", "step-00000040.h5"));
  EXPECT_EQ(std::filesystem::read_symlink(folder.file("best.h5")), checkpoint_name(30));
}

TEST(CheckpointFolder, RemovesADanglingLinkToTheBest) {
  const TemporaryFolder folder;
  std::filesystem::create_symlink(checkpoint_name(10), folder.file("best.h5"));
  write_sample_step(folder, 20);
  tidy_folder(folder.path(), 20, -1, {});
  EXPECT_THAT(folder.names(), ElementsAre("step-00000020.h5"));
}

TEST(CheckpointFolder, NeverRemovesTheLastCheckpoint) {
  const TemporaryFolder folder;
  write_sample_step(folder, 10);
  tidy_folder(folder.path(), 10, -1, {.keep_last = 0});
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5"));
}

TEST(CheckpointFolder, SupersedesNewerStepsOfAnAbandonedRun) {
  const TemporaryFolder folder;
  write_sample_step(folder, 500);
  write_sample_step(folder, 10);
  tidy_folder(folder.path(), 10, -1, {.keep_last = 1});
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000500.h5.superseded"));
  EXPECT_EQ(step_in(*load_latest(folder.path())), 10);
}

/// The results of both ranks of a group for a folder whose newest file only rank 1 reads as damaged.
std::array<Result<std::optional<UsedCheckpoint>>, 2> used_when_rank_1_reads_damage(const TemporaryFolder& folder) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  std::array<Result<std::optional<UsedCheckpoint>>, 2> used{std::optional<UsedCheckpoint>(),
                                                            std::optional<UsedCheckpoint>()};
  const auto rank = [&](std::uint32_t number) {
    testing_support::SocketGroup group(number, 2, {ends.at(number)});
    used.at(number) = use_latest(folder.path(), group, [&](const CheckpointReader&) {
      return number == 0 ? Result<void>() : fail("checkpoint", "", "is read wrongly", "", ErrorKind::BadData);
    });
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  return used;
}

TEST(CheckpointFolder, KeepsAFileThatOnlyOneRankReadsAsDamaged) {
  const TemporaryFolder folder;
  write_sample_step(folder, 10);
  write_sample_step(folder, 20);
  for (const Result<std::optional<UsedCheckpoint>>& used : used_when_rank_1_reads_damage(folder)) {
    ASSERT_FALSE(used);
    EXPECT_EQ(used.error().kind, ErrorKind::InputOutput);
    EXPECT_THAT(used.error().message(), HasSubstr("rank 0 reads it without errors"));
  }
  EXPECT_THAT(folder.names(), ElementsAre("step-00000010.h5", "step-00000020.h5"));
}

TEST(CheckpointFolder, SupersedeKeepsAllFilesAndRemovesTheLinkToTheBest) {
  const TemporaryFolder folder;
  for (int times = 0; times < 2; ++times) {
    write_sample_step(folder, 10);
    write_sample_step(folder, 20);
    tidy_folder(folder.path(), 20, /*best_step=*/20, {.keep_last = 2});
    EXPECT_TRUE(supersede(folder.path(), 10));
  }
  EXPECT_THAT(folder.names(),
              ElementsAre("step-00000010.h5", "step-00000020.h5.superseded", "step-00000020.h5.superseded-2"));
  EXPECT_TRUE(supersede(folder.path(), -1));
  EXPECT_EQ(folder.names().front(), "step-00000010.h5.superseded");
}

TEST(CheckpointFolder, RemovesOnlyTemporaryFilesOfDeadWriters) {
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

TEST(CheckpointFolder, ReportsAFolderThatCannotBeCreated) {
  const TemporaryFolder folder;
  write_file(folder.file("file"), {});
  const auto prepared = prepare_folder(folder.file("file/checkpoints"));
  ASSERT_FALSE(prepared);
  EXPECT_EQ(prepared.error().kind, ErrorKind::CannotCreate);
  EXPECT_TRUE(prepare_folder(folder.file("a/b/c")));
}

}  // namespace
}  // namespace rollcall::checkpoint::format

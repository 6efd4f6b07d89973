#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/base/this_process.h"
#include "tests/trainer/checkpoint/format/sample_content.h"
#include "trainer/checkpoint/format/retention.h"
#include "trainer/tools/checkpoint/program.h"
#include "trainer/tools/checkpoint/prune.h"

namespace rollcall::checkpoint_tool {
namespace {

namespace fs = std::filesystem;
using checkpoint::format::Best;
using checkpoint::format::checkpoint_name;
using checkpoint::format::SampleContent;
using checkpoint::format::TemporaryFolder;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void write_step(const TemporaryFolder& folder, std::int64_t step, const std::vector<Best>& best = {}) {
  SampleContent sample(step);
  sample.content.values[checkpoint::format::kBestPath] = checkpoint::format::best_to_json(best);
  ASSERT_TRUE(checkpoint::format::write_checkpoint(folder.file(checkpoint_name(step)), sample.content, {}));
}

void write_steps(const TemporaryFolder& folder, std::int64_t last) {
  for (std::int64_t step = 10; step <= last; step += 10) {
    write_step(folder, step);
  }
}

std::vector<std::string> steps(const std::vector<std::int64_t>& numbers) {
  std::vector<std::string> names;
  for (const std::int64_t number : numbers) {
    names.push_back(checkpoint_name(number));
  }
  return names;
}

/// Changes one byte of a tensor, which only a full verification detects.
void damage_tensor(const std::string& path) {
  const auto reader = checkpoint::format::CheckpointReader::open(path);
  ASSERT_TRUE(reader);
  const auto at = static_cast<std::size_t>(reader->find("/model/conv/weight")->offset) + 100;
  std::vector<char> bytes = checkpoint::format::file_bytes(path);
  bytes[at] = static_cast<char>(bytes[at] ^ 1);
  checkpoint::format::write_file(path, bytes);
}

struct Done {
  int code = 0;
  std::string out;
  std::string err;
};

Done prune(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"prune", "--progress=none"});
  std::ostringstream out;
  std::ostringstream err;
  const int code = run(arguments, out, err);
  return {code, out.str(), err.str()};
}

constexpr int kOutOfReach = -1;  ///< an exit code of none: nobody may look into the folder of temporary files

/// The same as an ordinary user, to whom, unlike root, permissions apply.
Done prune_as_ordinary_user(const std::vector<std::string>& arguments, const TemporaryFolder& notes) {
  if (::geteuid() != 0) {
    return prune(arguments);
  }
  const std::string told = notes.file("err");
  checkpoint::format::write_file(told, {});
  fs::permissions(notes.path(), fs::perms::all);
  fs::permissions(told, fs::perms::all);
  const pid_t child = ::fork();
  if (child == 0) {
    const uid_t nobody = 65534;
    if (::setresuid(nobody, nobody, nobody) != 0 || ::access(told.c_str(), W_OK) != 0) {
      ::abort();
    }
    const Done done = prune(arguments);
    checkpoint::format::write_file(told, {done.err.begin(), done.err.end()});
    ::_exit(done.code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  const std::vector<char> err = checkpoint::format::file_bytes(told);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : kOutOfReach, "", {err.begin(), err.end()}};
}

pid_t dead_process() {
  const pid_t dead = ::fork();
  if (dead == 0) {
    ::_exit(0);
  }
  ::waitpid(dead, nullptr, 0);
  return dead;
}

std::string temporary_of(std::int64_t step, pid_t writer) {
  return checkpoint_name(step) + ".tmp-" + this_host_name() + "-" + std::to_string(writer);
}

TEST(Prune, KeepsTheSameFilesAsTheTrainer) {
  const TemporaryFolder folder;
  write_steps(folder, 90);
  write_step(folder, 100, {{20, 0.9}, {40, 0.8}});
  fs::create_symlink(checkpoint_name(20), folder.file("best.h5"));
  const Done done = prune({"--keep-last=2", "--keep-best=2", "--keep-every=50", folder.path()});
  EXPECT_EQ(done.code, 0) << done.err;
  auto expected = steps({10, 20, 40, 50, 90, 100});
  expected.insert(expected.begin(), "best.h5");
  EXPECT_EQ(folder.names(), expected);
  EXPECT_THAT(done.out, AllOf(HasSubstr("one of the newest 2, verified"), HasSubstr("the best\n"),
                              HasSubstr("4 removed"), HasSubstr("6 kept")));
  EXPECT_LT(done.out.find(checkpoint_name(30)), done.out.find(checkpoint_name(60))) << "the oldest first";
}

TEST(Prune, DryRunReportsTheSameWithoutChanges) {
  const TemporaryFolder folder;
  write_steps(folder, 50);
  const std::vector<std::string> before = folder.names();
  const Done dry = prune({"--dry-run", "--json", folder.path()});
  EXPECT_EQ(dry.code, 0);
  EXPECT_EQ(folder.names(), before);
  const auto size = fs::file_size(folder.file(checkpoint_name(10))) + fs::file_size(folder.file(checkpoint_name(20)));
  const Done real = prune({"--json", folder.path()});
  EXPECT_EQ(folder.names(), steps({30, 40, 50}));
  const auto told = nlohmann::json::parse(dry.out);
  const auto did = nlohmann::json::parse(real.out);
  EXPECT_EQ(told["freed_bytes"], size);
  EXPECT_EQ(did["freed_bytes"], size);
  ASSERT_EQ(told["files"].size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(told["files"][i]["step"], 10 * (i + 1));
    EXPECT_EQ(told["files"][i]["goes"], i < 2);
    EXPECT_EQ(told["files"][i]["goes"], did["files"][i]["goes"]);
    EXPECT_EQ(told["files"][i]["verified"], i >= 2);
    EXPECT_FALSE(told["files"][i]["removed"]);
    EXPECT_EQ(did["files"][i]["removed"], i < 2);
  }
}

TEST(Prune, KeepsTheNewestIntactCheckpoint) {
  const TemporaryFolder folder;
  write_steps(folder, 50);
  damage_tensor(folder.file(checkpoint_name(50)));
  fs::resize_file(folder.file(checkpoint_name(40)), 5000);
  const Done done = prune({"--keep-last=1", folder.path()});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(folder.names(), steps({30, 40, 50})) << "damaged ones are the user's to look at";
  EXPECT_THAT(done.out, HasSubstr("1 of its tensors and values damaged"));
  EXPECT_TRUE(checkpoint::format::verify_file(folder.file(checkpoint_name(30)), checkpoint::format::VerifyLevel::Full));
}

TEST(Prune, VerifiesOnlyMetadataOnRequest) {
  const TemporaryFolder folder;
  write_steps(folder, 30);
  damage_tensor(folder.file(checkpoint_name(30)));
  EXPECT_EQ(prune({"--keep-last=1", "--verify=metadata", folder.path()}).code, 0);
  EXPECT_EQ(folder.names(), steps({30}));
}

TEST(Prune, RemovesNothingIfNoCheckpointIsIntact) {
  const TemporaryFolder folder;
  write_steps(folder, 30);
  for (const std::int64_t step : {10, 20, 30}) {
    damage_tensor(folder.file(checkpoint_name(step)));
  }
  const Done done = prune({"--keep-last=1", folder.path()});
  EXPECT_EQ(done.code, to_int(ExitCode::BadData));
  EXPECT_THAT(done.err, AllOf(HasSubstr("holds no intact checkpoint"), HasSubstr("; try ")));
  EXPECT_EQ(folder.names(), steps({10, 20, 30}));
}

TEST(Prune, RemovesTemporaryFilesOfDeadWritersOnly) {
  const TemporaryFolder folder;
  write_step(folder, 10);
  const std::string unfinished = temporary_of(20, dead_process());
  const std::string finished = temporary_of(30, dead_process());
  const std::string at_work = temporary_of(40, ::getppid());
  const std::string elsewhere = checkpoint_name(40) + ".tmp-another-host-1";
  for (const std::string& name : {unfinished, at_work, elsewhere}) {
    checkpoint::format::write_file(folder.file(name), {'x'});
  }
  fs::copy_file(folder.file(checkpoint_name(10)), folder.file(finished));
  for (const char* name : {"step-00000005.h5.damaged", "step-00000006.h5.superseded", "notes.txt", "data.h5"}) {
    checkpoint::format::write_file(folder.file(name), {'x'});
  }
  EXPECT_EQ(prune({folder.path()}).code, 0);
  EXPECT_THAT(folder.names(),
              testing::UnorderedElementsAre(checkpoint_name(10), at_work, elsewhere, "step-00000005.h5.damaged",
                                            "step-00000006.h5.superseded", "notes.txt", "data.h5"));
}

TEST(Prune, KeepsACompleteTemporaryFileWithoutIntactCheckpoints) {
  const TemporaryFolder folder;
  write_step(folder, 10);
  const std::string finished = temporary_of(20, dead_process());
  fs::copy_file(folder.file(checkpoint_name(10)), folder.file(finished));
  damage_tensor(folder.file(checkpoint_name(10)));
  EXPECT_EQ(prune({folder.path()}).code, to_int(ExitCode::BadData));
  EXPECT_THAT(folder.names(), ElementsAre(checkpoint_name(10), finished));
}

TEST(Prune, KeepsFilesReplacedInTheMeantime) {
  const TemporaryFolder folder;
  write_steps(folder, 40);
  Pruning pruning{.folder = folder.path(), .rules = {.keep_last = 1}, .files = {}};
  auto listed = list_files(folder.path());
  ASSERT_TRUE(listed);
  for (ListedFile& file : *listed) {
    pruning.files.push_back({std::move(file), {}});
  }
  std::ranges::reverse(pruning.files);
  decide(pruning);
  write_step(folder, 10);  // by a run that began afresh
  fs::remove(folder.file(checkpoint_name(20)));
  ASSERT_TRUE(remove_files(pruning));
  EXPECT_EQ(folder.names(), steps({10, 40}));
  EXPECT_EQ(pruning.files[0].decision.reason, "was replaced in the meantime");
  EXPECT_EQ(pruning.files[1].decision.reason, "was removed in the meantime");
  EXPECT_TRUE(pruning.files[2].removed);
}

TEST(Prune, DoesNotFollowLinks) {
  const TemporaryFolder folder;
  const TemporaryFolder archive;
  write_step(archive, 10);
  write_step(archive, 30);
  fs::create_symlink(archive.file(checkpoint_name(10)), folder.file(checkpoint_name(10)));
  write_step(folder, 15);
  write_step(folder, 20);
  fs::create_symlink(archive.file(checkpoint_name(30)), folder.file(checkpoint_name(30)));
  EXPECT_EQ(prune({"--keep-last=1", folder.path()}).code, 0);
  EXPECT_EQ(folder.names(), steps({10, 20, 30})) << "a link may lead nowhere tomorrow: it counts for none";
  EXPECT_EQ(archive.names(), steps({10, 30}));
}

TEST(Prune, CountsNoFreedBytesForHardLinkedFiles) {
  const TemporaryFolder folder;
  write_steps(folder, 20);
  fs::create_hard_link(folder.file(checkpoint_name(10)), folder.file("kept"));
  const Done done = prune({"--keep-last=1", "--json", folder.path()});
  EXPECT_EQ(nlohmann::json::parse(done.out)["freed_bytes"], 0);
  EXPECT_THAT(folder.names(), ElementsAre("kept", checkpoint_name(20)));
}

TEST(Prune, RemovesADanglingBestLink) {
  const TemporaryFolder folder;
  write_steps(folder, 20);
  fs::create_symlink(checkpoint_name(10), folder.file("best.h5"));
  EXPECT_EQ(prune({"--keep-last=1", "--keep-best=0", folder.path()}).code, 0);
  EXPECT_EQ(folder.names(), steps({20}));
}

TEST(Prune, FoldersWithoutCheckpointsAreErrors) {
  const TemporaryFolder folder;
  EXPECT_EQ(prune({folder.path()}).code, to_int(ExitCode::NoInput));
  checkpoint::format::write_file(folder.file("notes.h5"), {'x'});
  const Done done = prune({folder.path()});
  EXPECT_EQ(done.code, to_int(ExitCode::NoInput));
  EXPECT_THAT(done.err, HasSubstr("holds no checkpoint"));
  EXPECT_EQ(prune({folder.file("absent")}).code, to_int(ExitCode::NoInput));
  EXPECT_THAT(prune({folder.file("notes.h5")}).err, HasSubstr("is a file; try naming the folder"));
  EXPECT_EQ(prune({"--keep-last=0", folder.path()}).code, to_int(ExitCode::Usage));
  EXPECT_THAT(folder.names(), ElementsAre("notes.h5"));
}

TEST(Prune, UnreadableAndReadOnlyFoldersAreErrors) {
  const TemporaryFolder folder;
  const TemporaryFolder notes;
  write_steps(folder, 50);
  fs::permissions(folder.path(), fs::perms(0555));
  const Done read_only = prune_as_ordinary_user({"--keep-last=1", folder.path()}, notes);
  if (read_only.code == kOutOfReach) {
    fs::permissions(folder.path(), fs::perms(0700));
    GTEST_SKIP() << "user 65534 cannot reach " << testing::TempDir();
  }
  EXPECT_EQ(read_only.code, to_int(ExitCode::InputOutput));
  EXPECT_THAT(read_only.err, AllOf(HasSubstr(checkpoint_name(10)), HasSubstr("Permission denied")));
  fs::permissions(folder.path(), fs::perms(0311));
  const Done unreadable = prune_as_ordinary_user({"--keep-last=1", folder.path()}, notes);
  EXPECT_EQ(unreadable.code, to_int(ExitCode::NoInput));
  EXPECT_THAT(unreadable.err, HasSubstr("Permission denied"));
  fs::permissions(folder.path(), fs::perms(0700));
  EXPECT_EQ(folder.names(), steps({10, 20, 30, 40, 50}));
}

}  // namespace
}  // namespace rollcall::checkpoint_tool

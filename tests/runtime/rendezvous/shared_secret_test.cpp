#include "runtime/rendezvous/shared_secret.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runtime/settings/launch_settings.h"
#include "tests/support/temporary_folder.h"

namespace rollcall::rendezvous {
namespace {

using test::TemporaryFolder;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kDrawnBefore(64, 'a');

settings::Settings naming(const std::string& file) {
  settings::Settings settings(settings::launch_table());
  EXPECT_TRUE(settings.set("rendezvous.secret", file, "test"));
  return settings;
}

std::string written(const std::filesystem::path& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path.string();
}

std::string refusal_of_secret(const std::string& file) {
  const Result<std::string> secret = shared_secret(Environment(), naming(file));
  EXPECT_FALSE(secret) << file;
  return secret ? "" : secret.error().reason;
}

TEST(SharedSecret, IsReadFromTheConfiguredFile) {
  const TemporaryFolder folder;
  const Result<std::string> secret =
      shared_secret(Environment(), naming(written(folder.file("s"), kDrawnBefore + "\n")));
  ASSERT_TRUE(secret) << secret.error().message();
  EXPECT_EQ(*secret, kDrawnBefore);
}

TEST(SharedSecret, RefusesFilesThatAreSharedShortMissingOrNotRegular) {
  const TemporaryFolder folder;
  for (const mode_t mode : {0640U, 0604U, 0602U, 0666U}) {
    EXPECT_THAT(refusal_of_secret(written(folder.file("s"), kDrawnBefore, mode)),
                StartsWith("may be read or written by others"));
  }
  EXPECT_THAT(refusal_of_secret(written(folder.file("s"), "short")), HasSubstr("has 5 characters"));
  EXPECT_THAT(refusal_of_secret(written(folder.file("s"), "")), StartsWith("does not exist, or is empty"));
  EXPECT_THAT(refusal_of_secret(folder.file("none")), StartsWith("does not exist"));
  written(folder.file("s"), kDrawnBefore);
  ASSERT_EQ(symlink("s", folder.file("link").c_str()), 0);
  EXPECT_EQ(refusal_of_secret(folder.file("link")), "is not a regular file");
  ASSERT_EQ(mkfifo(folder.file("fifo").c_str(), 0600), 0);
  EXPECT_EQ(refusal_of_secret(folder.file("fifo")), "is not a regular file") << "and nobody waits for its other end";
  if (geteuid() == 0) {
    ASSERT_EQ(chown(folder.file("s").c_str(), 1234, 1234), 0);
    EXPECT_EQ(refusal_of_secret(folder.file("s")), "belongs to user 1234, not to you");
  }
}

TEST(SharedSecret, IsCreatedOnceByConcurrentProcesses) {
  const TemporaryFolder folder;
  const Environment environment({{"XDG_STATE_HOME", folder.file("state")}, {"HOME", "/nowhere"}});
  const settings::Settings settings(settings::launch_table());
  std::vector<std::string> secrets(16);
  std::vector<std::thread> processes;
  for (std::string& mine : secrets) {
    processes.emplace_back([&] {
      const Result<std::string> secret = shared_secret(environment, settings);
      EXPECT_TRUE(secret) << secret.error().message();
      mine = secret ? *secret : "";
    });
  }
  for (std::thread& process : processes) {
    process.join();
  }
  EXPECT_EQ(std::set(secrets.begin(), secrets.end()).size(), 1U);
  EXPECT_EQ(secrets[0].size(), 64U);
  const std::filesystem::path made = folder.file("state/rollcall");
  EXPECT_EQ(std::filesystem::status(made).permissions(), std::filesystem::perms(0700));
  EXPECT_EQ(std::filesystem::status(made / "secret").permissions(), std::filesystem::perms(0600));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(made), {}), 1) << "nothing is left beside it";
}

TEST(SharedSecret, UnwritableStateFolderIsAnErrorThatNamesTheSetting) {
  const Result<std::string> secret =
      shared_secret(Environment({{"XDG_STATE_HOME", "/proc/none"}}), settings::Settings(settings::launch_table()));
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().kind, ErrorKind::Unavailable);
  EXPECT_THAT(secret.error().message(),
              StartsWith("rollcall: rendezvous.secret: /proc/none/rollcall/secret: cannot be"));
}

TEST(SharedSecret, ErrorGivesTheReasonOfTheFailedFolder) {
  const Result<std::string> secret =
      shared_secret(Environment({{"XDG_STATE_HOME", "/sys/none"}}), settings::Settings(settings::launch_table()));
  ASSERT_FALSE(secret);
  EXPECT_THAT(secret.error().reason, Not(HasSubstr("No such file"))) << "which is that of the folder below";
}

TEST(SharedSecret, MissingStepSecretOfThePluginIsAMismatch) {
  const TemporaryFolder folder;
  const Result<std::string> secret = shared_secret(
      Environment(
          {{"SLURM_ROLLCALL_STEP_SECRET", kDrawnBefore}, {"SLURMD_NODENAME", "n7"}, {"XDG_STATE_HOME", folder.path()}}),
      settings::Settings(settings::launch_table()));
  ASSERT_FALSE(secret);
  EXPECT_EQ(secret.error().kind, ErrorKind::Mismatch);
  EXPECT_THAT(secret.error().message(), StartsWith("rollcall: rendezvous.secret: n7: the plugin did not pass on"));
  EXPECT_THAT(secret.error().message(), HasSubstr("another version than the node"));
}

/// A memory file as srun --ddp gives it to a task.
int memory_file(const std::string& text, bool sealed = true) {
  const int file = memfd_create("rollcall-secret", MFD_ALLOW_SEALING);
  EXPECT_EQ(write(file, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  if (sealed) {
    EXPECT_EQ(fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  }
  return file;
}

TEST(SharedSecret, StepSecretIsReadFromItsSealedMemoryFileOnly) {
  const TemporaryFolder folder;
  const settings::Settings settings(settings::launch_table());
  const auto secret_with = [&](int file, const char* step) {
    const Result<std::string> secret = shared_secret(Environment({{"ROLLCALL_SECRET_FD", std::to_string(file)},
                                                                  {"SLURM_JOB_ID", "7"},
                                                                  {"SLURM_STEP_ID", step},
                                                                  {"XDG_STATE_HOME", folder.path()}}),
                                                     settings);
    EXPECT_TRUE(secret);
    return secret ? *secret : "";
  };
  const int steps = memory_file("7.0 " + kDrawnBefore + "\n");
  EXPECT_EQ(secret_with(steps, "0"), kDrawnBefore);
  EXPECT_EQ(secret_with(steps, "0"), kDrawnBefore) << "read from the beginning, whoever read before";
  const std::string users = secret_with(steps, "1");
  EXPECT_NE(users, kDrawnBefore);
  EXPECT_EQ(users.size(), 64U) << "the user's own instead";
  const int open_file = open(written(folder.file("f"), "7.0 " + kDrawnBefore).c_str(), O_RDONLY | O_CLOEXEC);
  for (const int other : {memory_file("7.0 " + kDrawnBefore, false), memory_file("7.0 "), open_file, -1, 9999}) {
    EXPECT_EQ(secret_with(other, "0"), users);
    close(other);
  }
  close(steps);
}

}  // namespace
}  // namespace rollcall::rendezvous
